package hold

import "syscall"

// stopWithParent has the kernel tell the child to stop when the thread that started it ends.
func stopWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
