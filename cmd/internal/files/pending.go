//go:build !windows

package files

import "github.com/google/renameio/v2"

func newPending(path, tempDir string) (pending, error) {
	return renameio.NewPendingFile(path, renameio.WithTempDir(tempDir),
		renameio.WithPermissions(0o666), renameio.WithExistingPermissions())
}
