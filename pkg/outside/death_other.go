//go:build !linux

package outside

import "syscall"

// dieWithParent does nothing here: only Linux knows a parent-death signal. A worker still sees the end of its input.
func dieWithParent(*syscall.SysProcAttr) {}
