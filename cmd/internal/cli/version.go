package cli

import "runtime/debug"

// Version returns the version that the Go command recorded in the binary, or
// (devel).
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
