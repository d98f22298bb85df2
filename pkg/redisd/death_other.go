//go:build !linux

package redisd

import "syscall"

// dieWithParent does nothing here: only Linux knows a parent-death signal.
func dieWithParent(*syscall.SysProcAttr) {}
