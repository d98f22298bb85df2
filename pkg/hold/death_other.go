//go:build !linux

package hold

import "syscall"

// stopWithParent does nothing here: only Linux knows a parent-death signal.
func stopWithParent(*syscall.SysProcAttr) {}
