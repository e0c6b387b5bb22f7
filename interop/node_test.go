package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// cannotRun skips the test because a tool is missing. In CI every tool must be
// there, so the test fails.
func cannotRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, and %s", why)
	}
	t.Skip(why)
}

// nodePackages installs what package-lock.json names, unless it is there. It
// returns why the packages cannot be used, or "".
var nodePackages = sync.OnceValue(func() (missing string) {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not in PATH: install Node.js 18 or newer with npm (https://nodejs.org, or apt-get install nodejs npm)"
	}
	for _, name := range []string{"dynalite", "s3rver"} {
		if _, err := os.Stat(filepath.Join("node_modules", name, "package.json")); err == nil {
			continue
		}
		if _, err := exec.LookPath("npm"); err != nil {
			return "npm is not in PATH: install it (it comes with Node.js), then run npm ci in interop/"
		}
		if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
			out = bytes.TrimSpace(out)
			last := out[bytes.LastIndexByte(out, '\n')+1:]
			return fmt.Sprintf("npm ci in interop/ failed (%v: %s): run it where a registry can be reached", err, last)
		}
		break
	}
	return ""
})

// startNode runs a script that prints the port on which it listens. It returns
// the host with the port. The script ends with the test.
func startNode(t testing.TB, script string, args ...string) (addr string) {
	t.Helper()
	if missing := nodePackages(); missing != "" {
		cannotRun(t, missing)
	}
	const untilStdinEnds = `process.stdin.on('end', () => process.exit()).resume();`
	p := startChild(t, exec.Command("node", append([]string{"-e", untilStdinEnds + script, "--"}, args...)...))
	port, err := p.line(time.Minute)
	if err != nil {
		t.Fatalf("the server did not start: %v\n%s", err, p.stderr)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// startDynalite starts a DynamoDB server in memory.
func startDynalite(t testing.TB) (addr string) {
	t.Helper()
	return startNode(t, `
		const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0, updateTableMs: 0});
		server.listen(0, '127.0.0.1', () => console.log(server.address().port));`)
}

// startS3rver starts an S3 server that has s3Bucket.
func startS3rver(t testing.TB) (addr string) {
	t.Helper()
	return startNode(t, `
		const S3rver = require('s3rver');
		new S3rver({address: '127.0.0.1', port: 0, silent: true, directory: process.argv[1],
			allowMismatchedSignatures: true, configureBuckets: [{name: process.argv[2]}]}).
			run().then(({port}) => console.log(port));`, t.TempDir(), s3Bucket)
}
