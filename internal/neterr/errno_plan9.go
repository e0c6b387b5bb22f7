package neterr

// Plan 9 has no error numbers.

func isRefused(error) bool { return false }
func isReset(error) bool   { return false }
