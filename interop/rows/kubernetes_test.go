package rows

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"example.com/awsretry"
)

func init() { klog.SetLogger(logr.Discard()) } // it logs each scene

var kubeRow = row{
	client:  "k8s.io/client-go",
	how:     "its retries stay on; `config.Wrap(belowClientGo)`",
	repeats: kubeAlone,
	calls: []call{
		{name: "get", server: kubeServer, do: onPods(func(ctx context.Context, pods dynamic.ResourceInterface) error {
			pod, err := pods.Get(ctx, "p", metav1.GetOptions{})
			return unless(err == nil && pod.GetName() == "p", err)
		})},
		{name: "list", server: kubeServer, do: onPods(func(ctx context.Context, pods dynamic.ResourceInterface) error {
			list, err := pods.List(ctx, metav1.ListOptions{})
			return unless(err == nil && len(list.Items) == 1, err)
		})},
		{name: "create", server: kubeServer, do: onPods(func(ctx context.Context, pods dynamic.ResourceInterface) error {
			created, err := pods.Create(ctx, newPod(), metav1.CreateOptions{})
			return unless(err == nil && created.GetName() == "p", err)
		})},
		{name: "delete", server: kubeServer, do: onPods(func(ctx context.Context, pods dynamic.ResourceInterface) error {
			return pods.Delete(ctx, "p", metav1.DeleteOptions{})
		})},
		{name: "watch", server: kubeServer, do: onPods(func(ctx context.Context, pods dynamic.ResourceInterface) error {
			events, err := pods.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer events.Stop()
			event, more := <-events.ResultChan()
			return unless(more && event.Type == kubewatch.Added, nil)
		})},
	},
	scenes: append(kubeOutages,
		scene{name: "10 × 503 with Retry-After", times: 10, fault: status(503, "Retry-After", "1")},
		scene{name: "10 × reset", times: 10, fault: reset},
		scene{name: "10 × closed", times: 10, fault: closed}),
}

var kubeOutages = []scene{
	{name: "503 with Retry-After for a minute", times: forever, fault: status(503, "Retry-After", "1"), ends: time.Minute},
	{name: "reset for a minute", times: forever, fault: reset, ends: time.Minute},
	{name: "closed for a minute", times: forever, fault: closed, ends: time.Minute},
}

const kubeAlone = "11 after `Retry-After` or a lost connection, else 1"

var kubeOffRow = row{
	client: "k8s.io/client-go", name: "single requests",
	how:       "`request.MaxRetries(0)`; `config.Wrap` with a `plainEOF`, `Policy: awsretry.IdempotentOnly(nil)`",
	repeats:   kubeAlone,
	transport: func(tr *awsretry.Transport) { tr.Policy = awsretry.IdempotentOnly(nil) },
	calls: []call{
		{name: "get", server: kubeServer, do: onKube(func(ctx context.Context, r *rest.Request) error {
			_, err := r.DoRaw(ctx)
			return err
		})},
		{name: "watch", server: kubeServer, do: onKube(func(ctx context.Context, r *rest.Request) error {
			events, err := r.Param("watch", "true").Watch(ctx)
			if err != nil {
				return err
			}
			events.Stop()
			return nil
		})},
	},
	scenes: kubeOutages,
}

func onKube(do func(context.Context, *rest.Request) error) func(context.Context, setting) error {
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	return func(ctx context.Context, s setting) error {
		config := &rest.Config{Host: s.url, QPS: -1, Transport: s.Transport}
		config.NegotiatedSerializer = codecs.WithoutConversion()
		if tr, ok := s.Transport.(*awsretry.Transport); ok {
			config.Transport = plainEOF{tr}
		}
		client, err := rest.UnversionedRESTClientFor(config)
		if err != nil {
			return err
		}
		r := client.Get().AbsPath("/api/v1/namespaces/n/pods/p")
		if s.over {
			r.MaxRetries(0)
		}
		return do(ctx, r)
	}
}

func newPod() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": "p", "namespace": "n", "resourceVersion": "1"},
	}}
}

func onPods(do func(context.Context, dynamic.ResourceInterface) error) func(context.Context, setting) error {
	return func(ctx context.Context, s setting) error {
		config := &rest.Config{Host: s.url, QPS: -1, Transport: s.Transport}
		if tr, ok := s.Transport.(*awsretry.Transport); ok {
			config.Transport = tr.Base
			config.Wrap(belowClientGo)
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		return do(ctx, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("n"))
	}
}

func kubeServer() http.HandlerFunc {
	created := false
	return func(w http.ResponseWriter, r *http.Request) {
		pod := newPod().Object
		answer, code := any(pod), http.StatusOK
		switch {
		case r.URL.Query().Has("watch"):
			answer = map[string]any{"type": kubewatch.Added, "object": pod}
			w = withoutLength{w}
		case r.Method == http.MethodPost && created:
			answer, code = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: 409}, 409
		case r.Method == http.MethodPost:
			created, code = true, http.StatusCreated
		case strings.HasSuffix(r.URL.Path, "/pods"):
			answer = map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{pod}}
		}
		body, err := json.Marshal(answer)
		if err != nil {
			panic(err) // they are maps
		}
		respond(code, asJSON, string(body))(w, r)
	}
}

// withoutLength is for a response that does not end by itself.
type withoutLength struct{ http.ResponseWriter }

func (w withoutLength) WriteHeader(code int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(code)
}
