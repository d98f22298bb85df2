package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
)

// The server's binary is the one that the package of tools calls NAME-check-rdb: it goes by the name under which it is
// started.

// wrap puts a command redis-server into a folder of its own below dir, which runs the server of a tree on the tree's loader
// and libraries, and returns the folder. In front of PATH it is the server that rlctl and its tests find.
func wrap(dir, tree, server string) (folder string, err error) {
	loader, err := loaderOf(tree, filepath.Join(tree, "usr", "bin", server+"-check-rdb"))
	if err != nil {
		return "", err
	}
	folder = filepath.Join(dir, "bin")
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	named := filepath.Join(folder, "named", "redis-server")
	if err := os.MkdirAll(filepath.Dir(named), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join(tree, "usr", "bin", server+"-check-rdb"), named); err != nil {
		return "", err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s --library-path %s %s \"$@\"\n",
		report.ShellWord(loader), report.ShellWord(strings.Join(libraries(tree), ":")), report.ShellWord(named))
	return folder, os.WriteFile(filepath.Join(folder, "redis-server"), []byte(script), 0o755)
}

// loaderOf is the tree's own loader of a binary. Releases differ in whether /lib64 is below /usr in the packages.
func loaderOf(tree, binary string) (string, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return "", err
	}
	defer file.Close()
	section := file.Section(".interp")
	if section == nil {
		return "", errors.New("the server names no loader")
	}
	data, err := section.Data()
	if err != nil {
		return "", err
	}
	name := strings.TrimRight(string(data), "\x00")
	for _, root := range []string{tree, filepath.Join(tree, "usr")} {
		if path := filepath.Join(root, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("the loader %s is not in the tree", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// libraries are the folders of a tree in which they lie.
func libraries(tree string) (folders []string) {
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(tree, pattern))
		folders = append(folders, found...)
	}
	return folders
}
