-- A server that knows the commands of a limiter and answers each EVALSHA with the next of its arguments, the last of them
-- ever after: a reply in Redis's protocol without its last line break, `close`, or `dribble`, which never ends. It listens
-- on a TCP port that the system picks, and prints that; then `connected` for each connection, and the name of each
-- command. QUIT ends it.

local socket = require("socket")

local replies = { ... }
local listener = assert(socket.bind("127.0.0.1", 0))
io.stdout:setvbuf("line")
print((select(2, listener:getsockname())))

-- A command is an array of strings. Returns its first word, nil at the end of the connection.
local function command(peer)
  local count = peer:receive()
  if not count then return nil end
  local name
  for _ = 1, tonumber(string.sub(count, 2)) do
    local length = tonumber(string.sub(peer:receive(), 2))
    local word = peer:receive(length + 2)
    name = name or string.upper(string.sub(word, 1, -3))
  end
  return name
end

local function answer(name)
  if name ~= "EVALSHA" then return name == "SCRIPT" and "$40\r\n" .. string.rep("a", 40) or "+OK" end
  return #replies > 1 and table.remove(replies, 1) or replies[1]
end

-- A reply of which each line comes in good time, until the other side has enough.
local function dribble(peer)
  peer:send("*1000000\r\n")
  while peer:send(":1\r\n") do socket.sleep(0.02) end
end

local open = { listener }
while true do
  for _, peer in ipairs((socket.select(open))) do
    local name, reply
    if peer == listener then
      open[#open + 1] = listener:accept()
      print("connected")
    else
      name = command(peer)
      if name == "QUIT" then os.exit() end
      if name then print(name) end
      reply = name and answer(name)
      if reply == "dribble" then dribble(peer) end
      if reply and reply ~= "close" and reply ~= "dribble" then
        peer:send(reply .. "\r\n")
      else
        peer:close()
        for i, p in ipairs(open) do
          if p == peer then table.remove(open, i) end
        end
      end
    end
  end
end
