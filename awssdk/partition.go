package awssdk

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
)

// noService is the partition of the clients without a service: those of the EC2
// metadata service and of the endpoint for a container's credentials. It has no
// rate limiter, and every call of such a client is in it.
const noService = "no service"

type partitionKey struct{}

// defaultPartition names what AWS throttles together. Endpoint and account are
// "" where they are not known.
func defaultPartition(ctx context.Context, endpoint, account string) string {
	name := awsmiddleware.GetServiceID(ctx)
	for _, part := range []string{awsmiddleware.GetRegion(ctx), endpoint, account} {
		if part != "" {
			name += " " + part
		}
	}
	return name
}

// clientOf identifies the client that made the stack. It returns nil if it cannot.
func clientOf(stack *middleware.Stack) *atomic.Int64 {
	m, _ := stack.Finalize.Get(retryID)
	if loop, ok := m.(*retry.Attempt); ok {
		return loop.ClientSkew // each client has one
	}
	return nil
}

// accounts are those of the clients, hashed, by what clientOf returns.
type accounts struct{ m sync.Map }

// remember notes the account of a client, for its next calls.
func (a *accounts) remember(skew *atomic.Int64, account string) {
	if skew == nil {
		return
	}
	key := weak.Make(skew)
	if _, known := a.m.Swap(key, account); !known {
		runtime.AddCleanup(skew, func(key weak.Pointer[atomic.Int64]) { a.m.Delete(key) }, key)
	}
}

// of returns the account that was remembered, or "".
func (a *accounts) of(skew *atomic.Int64) string {
	account, _ := a.m.Load(weak.Make(skew))
	name, _ := account.(string)
	return name
}

// signer returns a hash of the account of the credentials that req is signed
// with, or "" if it is not signed.
func signer(req *http.Request) string {
	if req == nil {
		return ""
	}
	_, credential, _ := strings.Cut(req.Header.Get("Authorization"), "Credential=")
	id, _, ok := strings.Cut(credential, "/")
	if !ok {
		return ""
	}
	sum := sha256.Sum256(accountPart(id))
	return hex.EncodeToString(sum[:6])
}

// accountPart returns the part of an access key ID that all keys of an account have in
// common, so that new credentials of a role stay in their partition. IDs from
// before 2019, and those that are not of AWS, have no such part.
func accountPart(id string) []byte {
	if len(id) != 20 {
		return []byte(id)
	}
	b, err := base32.StdEncoding.DecodeString(id[4:])
	if err != nil || b[0] < 0x80 {
		return []byte(id)
	}
	return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(b)<<1>>24)
}

// baseEndpoint returns the host of the BaseEndpoint of the client that made the
// stack, or "". The SDK shows a client's options to no middleware but its own.
func baseEndpoint(stack *middleware.Stack) string {
	m, _ := stack.Finalize.Get("GetIdentity")
	v := reflect.Indirect(reflect.ValueOf(m))
	for _, field := range []string{"options", "BaseEndpoint"} {
		if v.Kind() != reflect.Struct {
			return ""
		}
		v = reflect.Indirect(v.FieldByName(field))
	}
	if v.Kind() != reflect.String {
		return ""
	}
	endpoint, err := url.Parse(v.String())
	if err != nil {
		return ""
	}
	return endpoint.Host
}
