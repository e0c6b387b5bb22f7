package interop

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// cannotRun skips the test for want of something that is not ours, and fails it where everything has to be there.
func cannotRun(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, and %s", what)
	}
	t.Skipf("%s", what)
}

// nodePackages installs what package-lock.json names, unless it is there.
var nodePackages = sync.OnceValue(func() string {
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
			return "npm ci in interop/ failed (" + err.Error() + "); run it by hand where a registry is reachable:\n" + string(out)
		}
		break
	}
	return ""
})

// startNode runs a script that prints the port on which it listens, and returns its host and port.
func startNode(t testing.TB, script string, args ...string) string {
	t.Helper()
	if missing := nodePackages(); missing != "" {
		cannotRun(t, missing)
	}
	const untilStdinEnds = `process.stdin.on('end', () => process.exit()).resume();`
	p := startChild(t, exec.Command("node", append([]string{"-e", untilStdinEnds + script, "--"}, args...)...))
	port, err := p.line(30 * time.Second)
	if err != nil {
		t.Fatalf("the server did not start: %v\n%s", err, p.stderr)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// startDynalite starts a DynamoDB server in memory.
func startDynalite(t testing.TB) string {
	t.Helper()
	return startNode(t, `
		const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0, updateTableMs: 0});
		server.listen(0, '127.0.0.1', () => console.log(server.address().port));`)
}

const s3Bucket = "interop"

// startS3rver starts an S3 server that has s3Bucket.
func startS3rver(t testing.TB) string {
	t.Helper()
	return startNode(t, `
		const S3rver = require('s3rver');
		new S3rver({address: '127.0.0.1', port: 0, silent: true, directory: process.argv[1],
			allowMismatchedSignatures: true, configureBuckets: [{name: 'interop'}]}).
			run().then(({port}) => console.log(port));`, t.TempDir())
}

// startGofakes3 starts an S3 server that has s3Bucket, in this process.
func startGofakes3(t testing.TB) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(s3Bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// newBase returns connections of a test's own, closed at its end.
func newBase(t testing.TB) *http.Transport {
	base := &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second} // as http.DefaultTransport waits
	t.Cleanup(base.CloseIdleConnections)
	return base
}
