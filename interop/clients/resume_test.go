package clients

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
)

// A file is downloaded from nginx over connections that close every 100,000
// bytes. It arrives whole. If it is replaced meanwhile, Read returns an error and
// never a mix.
func TestResumeFromNginx(t *testing.T) {
	const size, every, least = 1 << 20, 100_000, 11
	toxic := toxic("limit_data", down, 1, fmt.Sprintf(`"bytes": %d`, every))
	for _, tt := range []struct {
		listen, scheme string
		protocol, most int // requests; the records and frames of HTTP/2 that are cut are lost
	}{{"", "http", 1, least}, {"ssl http2", "https", 2, 2 * least}} {
		t.Run(fmt.Sprint("HTTP/", tt.protocol), func(t *testing.T) {
			dir := t.TempDir()
			addr, _ := kit.StartNginx(t, dir, fmt.Sprintf("server { listen ADDR %s; root %s; }", tt.listen, dir))
			url := tt.scheme + "://" + startToxiproxy(t, addr, toxic).Listen + "/object"
			_, roots := kit.Certificate()
			pool := kit.Pool(t)
			pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: roots}
			var attempts []awsretry.Attempt
			tr := kit.Retrying(pool)
			tr.Resume, tr.Observe = true, func(a awsretry.Attempt) { attempts = append(attempts, a) }

			first, other := kit.Random(1, size), kit.Random(2, size)
			replace(t, dir, first, 1)
			got, err := kit.Text((&http.Client{Transport: tr}).Get(url))
			if err != nil || got != string(first) {
				t.Fatalf("%d bytes of %d, %v", len(got), size, err)
			}
			if len(attempts) < least || len(attempts) > tt.most {
				t.Errorf("%d requests, want %d to %d", len(attempts), least, tt.most)
			}
			for _, a := range attempts[1:] {
				if a.Class != awsretry.Success || a.Response.StatusCode != http.StatusPartialContent ||
					a.Response.ProtoMajor != tt.protocol || a.Offset == 0 {
					t.Errorf("the request from %d on: %v, %v, %v", a.Offset, a.Class, a.Response, a.Err)
				}
			}

			resp := kit.Must[*http.Response](t)((&http.Client{Transport: tr}).Get(url))
			defer resp.Body.Close()
			half := make([]byte, size/2)
			if _, err := io.ReadFull(resp.Body, half); err != nil {
				t.Fatal(err)
			}
			replace(t, dir, other, 2)
			rest, err := io.ReadAll(resp.Body)
			all := append(half, rest...)
			failed := new(awsretry.Error)
			if !errors.As(err, &failed) || failed.Stop != awsretry.StopPermanent || !bytes.HasPrefix(first, all) ||
				!strings.Contains(err.Error(), "sent the whole object again") || // nginx obeys If-Range
				!strings.Contains(err.Error(), fmt.Sprintf("broke off after %d bytes", len(all))) {
				t.Errorf("after %d bytes: %v", len(all), err)
			}
		})
	}
}

// replace puts a version of the object in place. nginx makes its ETag of the
// length and the time, in seconds.
func replace(t *testing.T, dir string, content []byte, version int64) {
	t.Helper()
	file, modified := filepath.Join(dir, "new"), time.Unix(1_000_000_000+version, 0)
	kit.WriteFile(t, file, content)
	if err := os.Chtimes(file, modified, modified); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, filepath.Join(dir, "object")); err != nil {
		t.Fatal(err)
	}
}
