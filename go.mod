module github.com/rlctl/rlctl

go 1.26
