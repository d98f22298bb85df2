--- The names of the limiters: those that have decision vectors.
local names = {}
local listed = assert(io.popen("ls ../testdata/vectors"))
for file in listed:lines() do names[#names + 1] = string.match(file, "^(.*)%.json$") end
listed:close()
assert(#names > 0, "there are no decision vectors")
return names
