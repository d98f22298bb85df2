package redisd

// Build compiles the clock library, each time it is called.
var Build = build

// KeeperPID returns the process id of the keeper.
func (k *Kept) KeeperPID() int { return k.keeper.Process.Pid }

var Reserve = reserve
