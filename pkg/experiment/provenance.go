package experiment

// Provenance says what made a result: the program, the machine and the command line.
type Provenance struct {
	Command  string  `json:"command"` // without secrets
	Time     string  `json:"time"`    // when it began, RFC 3339 in UTC
	Version  string  `json:"version"` // of rlctl
	Commit   *string `json:"commit"`
	Modified *bool   `json:"modified"` // the work tree differed from the commit
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
	Kernel   *string `json:"kernel"`
	CPU      *string `json:"cpu"` // model
	Cores    int     `json:"cores"`
	Memory   *int64  `json:"memory_bytes"`
	Redis    Server  `json:"redis"`
}
