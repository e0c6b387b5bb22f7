package awsretry

import (
	"cmp"
	"net/http"
	"time"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
	"example.com/awsretry/internal/wait"
)

// A fastPath sends a request that needs nothing but sending. Most requests
// succeed there, without an allocation. If one fails, it makes a call that goes on
// after the attempt.
type fastPath struct {
	config    *config      // nil if nothing was sent
	options   *callOptions // nil if the context has none, or was not asked
	via       http.RoundTripper
	own       *respbody.Context    // of what was sent; nil if that is the caller's request
	out       *http.Request        // what was sent, with own
	partition *admission.Partition // set before sending in adaptive mode, which needs it, else by finish
	sendTime  time.Duration        // see permit
	memory    replay.Memory        // of the request's body
	resp      *http.Response
	err       error
}

// send makes the first attempt if neither the settings nor the request ask for
// more than sending it, and no send token has to be waited for. It is called
// once. If sent is true afterwards, finish must be called.
func (f *fastPath) send(c *config, req *http.Request) {
	if req.Trailer != nil ||
		req.Body != nil && req.Body != http.NoBody && (req.GetBody == nil || !f.memory.Remember(req.Body)) {
		return
	}
	ctx := req.Context()
	if ctx.Err() != nil || wait.Canceled(req) {
		return
	}
	if f.options = optionsOf(ctx); f.options != nil {
		return
	}
	via := c.base
	if c.conns != nil {
		via = c.conns.For(req.URL)
	}
	if c.mode == Adaptive {
		f.sendPaced(c, req, via)
		return
	}
	f.exchange(c, req, via)
}

// sendPaced is send in adaptive mode. If it sends the request, its caller must
// release the partition.
func (f *fastPath) sendPaced(c *config, req *http.Request, via http.RoundTripper) {
	p := c.partitions.OfURL(req.URL)
	defer func() {
		if !f.sent() {
			c.partitions.Release(p)
		}
	}()
	if pacer := p.Pacer; pacer.TakesTokens() {
		var ok bool
		if f.sendTime, ok = pacer.Take(announced.Request{}); !ok {
			return
		}
	} else {
		f.sendTime = pacer.SendFree()
	}
	f.exchange(c, req, via)
	f.partition = p
}

// exchange sends the request, in its own context if nothing else would end
// an error body that hangs.
func (f *fastPath) exchange(c *config, req *http.Request, via http.RoundTripper) {
	f.via = via
	if (c.attempts > 1 || c.mode == Adaptive) && c.mayHang(req.Context()) ||
		c.policy != nil && secure(req) && !idempotent(&Attempt{Request: req}) {
		f.sendWithin(req, c.foreign)
	} else {
		f.resp, f.err = via.RoundTrip(req)
	}
	f.config = c
}

// sendWithin sends the request in its own context.
func (f *fastPath) sendWithin(req *http.Request, foreign bool) {
	f.own = respbody.NewContext(req.Context(), 0, 0, !idempotent(&Attempt{Request: req}))
	f.out = f.own.Copy(req)
	if foreign {
		f.own.Watch(f.out)
	}
	f.resp, f.err = f.own.Send(f.via, f.out)
	if f.resp != nil && f.resp.Request == f.out {
		f.resp.Request = req
	}
}

func (f *fastPath) sent() bool { return f.config != nil }

// finish ends the call of the request that was sent.
func (f *fastPath) finish(req *http.Request) (*http.Response, error) {
	if f.partition == nil {
		f.findPartition(req)
	}
	if !f.succeeded(req) {
		return f.goOn(req)
	}
	f.reward(req)
	return f.resp, nil
}

// findPartition finds the partition of the request. Shared.Join may panic: then it
// closes the response.
func (f *fastPath) findPartition(req *http.Request) {
	defer func() {
		if f.partition == nil && f.resp != nil && f.resp.Body != nil {
			f.resp.Body.Close()
		}
	}()
	f.partition = f.config.partitions.OfURL(req.URL)
}

// succeeded reports whether the response needs no further look.
func (f *fastPath) succeeded(req *http.Request) bool {
	return f.resp != nil && f.err == nil && f.resp.StatusCode < 400 && f.resp.Body != nil &&
		(f.resp.StatusCode != http.StatusOK || !awsproto.MayHideError(req))
}

// reward releases the tokens that a success earns.
func (f *fastPath) reward(req *http.Request) {
	if conns := f.config.conns; conns != nil {
		conns.Saw(req, f.resp.ProtoMajor)
	}
	p := f.partition
	if p.Pacer != nil {
		p.Pacer.Update(f.sendTime, false)
	}
	p.Quota.Release(f.config.quota.SuccessIncrement)
	f.config.partitions.Release(f.partition)
}

// goOn makes the call of the request that was sent, after its first attempt.
func (f *fastPath) goOn(req *http.Request) (*http.Response, error) {
	var c call
	defer c.release()
	c.req, c.caller, c.outer = req, wait.Of(req), f.config.retriedOutside(req)
	c.configure(f.config, nil)
	c.body.Sent(req, f.memory)
	c.partition = f.partition
	c.start(1, past{})
	c.now.out, c.now.own, c.now.sentBy, c.now.permit.SendTime = cmp.Or(f.out, req), f.own, f.via, f.sendTime
	c.now.record.Response, c.now.record.Err = f.resp, f.err
	c.receive()
	if !c.conclude() {
		return c.finish()
	}
	return c.run()
}
