package doctor

// For tests that look at one part.
var (
	Harmless = harmless
	RightsOf = rightsOf
	Unseen   = unseen
)
