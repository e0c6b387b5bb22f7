package get

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/internal/byterange"
)

// partials are the files that earlier gets of a URL have left for an output file:
// the beginning of a body that broke off for good. The name of such a file has the
// ETag, so that the version of the bytes is certain:
//
//	FILE.<hash of the URL>.<ETag in base64url>.part
//
// A get copies such a file and never writes to it. The zero partials have no files
// and leave none.
type partials struct {
	prefix string // of the paths
	etag   string // of the file that is continued
	path   string // of that file; "": none
	size   int64
}

const partSuffix = ".part"

// findPartials looks for a file that the request can continue.
func findPartials(out *files.Output, req *http.Request) partials {
	for _, name := range []string{
		"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
	} {
		if _, own := req.Header[name]; own {
			return partials{}
		}
	}
	if !out.IsReplaced() {
		return partials{}
	}
	hash := sha256.Sum256([]byte(req.URL.String()))
	p := partials{prefix: out.Path() + "." + hex.EncodeToString(hash[:12]) + "."}
	for path, etag := range p.all() {
		if size := sizeOf(path); size > p.size {
			p.path, p.etag, p.size = path, etag, size
		}
	}
	return p
}

// sizeOf returns the size of the file at path, or 0 if it cannot be continued: in a
// folder that others can write to, its name may be that of their link or file.
func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !ownedByUser(info) {
		return 0
	}
	return info.Size()
}

// all returns the files, with their ETags.
func (p *partials) all() map[string]string {
	found := make(map[string]string)
	if p.prefix == "" {
		return found
	}
	files, _ := os.ReadDir(filepath.Dir(p.prefix))
	for _, f := range files {
		path := filepath.Join(filepath.Dir(p.prefix), f.Name())
		name, ok := strings.CutPrefix(path, filepath.Clean(p.prefix))
		name, isPart := strings.CutSuffix(name, partSuffix)
		etag, err := base64.RawURLEncoding.DecodeString(name)
		if ok && isPart && err == nil {
			found[path] = `"` + string(etag) + `"`
		}
	}
	return found
}

// ask makes the request one for the rest of the file.
func (p *partials) ask(req *http.Request) {
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	req.Header.Set("If-Range", p.etag)
}

// continuedBy reports whether the response has the rest of the file.
func (p *partials) continuedBy(req *http.Request, resp *http.Response) bool {
	part, why := byterange.Resumable(req, resp)
	return why == "" && resp.StatusCode == http.StatusPartialContent && part.First == p.size && part.Open &&
		resp.Header.Get("Etag") == p.etag && resp.Header.Get("Content-Encoding") == ""
}

// drop makes the request one for all of the body. The file is kept until a get has
// all of it.
func (p *partials) drop(req *http.Request) {
	p.path, p.etag, p.size = "", "", 0
	req.Header.Del("Range")
	req.Header.Del("If-Range")
}

// copyTo writes the content of the file.
func (p *partials) copyTo(w io.Writer) error {
	if p.path == "" {
		return nil
	}
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w, f)
	if err == nil && n != p.size {
		err = fmt.Errorf("%s has changed while it was read", p.path)
	}
	return err
}

// leave leaves what out has of the body of resp, size bytes, for the next get,
// unless an earlier get has left more of that version. It returns the path of the
// file, or "" if that is impossible.
func (p *partials) leave(out *files.Output, resp *http.Response, size int64) (path string) {
	_, why := byterange.Resumable(resp.Request, resp)
	if p.prefix == "" || why != "" || resp.Header.Get("Content-Encoding") != "" {
		return ""
	}
	etag := strings.Trim(resp.Header.Get("Etag"), `"`)
	path = p.prefix + base64.RawURLEncoding.EncodeToString([]byte(etag)) + partSuffix
	if size > sizeOf(path) && out.Leave(path) != nil { // the name may be too long
		return ""
	}
	p.remove(path)
	return path
}

// remove removes the files, but not the one at path.
func (p *partials) remove(except string) {
	for path := range p.all() {
		if path != filepath.Clean(except) {
			os.Remove(path)
		}
	}
}
