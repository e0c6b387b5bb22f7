package deliveryqueue_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"example.com/awsretry/deliveryqueue"
)

// seal returns a Config.Seal and a Config.Open that encrypt stored requests with
// AES-256-GCM. The first key seals, and every key opens, so that a key can be
// replaced while deliveries wait.
func seal(keys ...[]byte) (seal, open func([]byte) ([]byte, error), err error) {
	var ciphers []cipher.AEAD
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, nil, err
		}
		ciphers = append(ciphers, aead)
	}
	if len(ciphers) == 0 {
		return nil, nil, errors.New("no key")
	}
	seal = func(request []byte) ([]byte, error) { return ciphers[0].Seal(nil, nil, request, nil), nil }
	open = func(sealed []byte) (request []byte, err error) {
		for _, aead := range ciphers {
			if request, err = aead.Open(nil, nil, sealed, nil); err == nil {
				return request, nil
			}
		}
		return nil, err
	}
	return seal, open, nil
}

// The stored request is encrypted, and its key is replaced while it waits.
func ExampleConfig_seal() {
	old, current := make([]byte, 32), make([]byte, 32) // in a program, from where it keeps its secrets
	_, _ = rand.Read(old)
	_, _ = rand.Read(current)

	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		fmt.Println("the endpoint got", req.Header.Get("Authorization"))
		stop()
	}))
	defer endpoint.Close()
	dir, err := os.MkdirTemp("", "deliveryqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	open := func(keys ...[]byte) *deliveryqueue.Queue {
		seal, open, err := seal(keys...)
		if err != nil {
			log.Fatal(err)
		}
		queue, err := deliveryqueue.Open(ctx, filepath.Join(dir, "deliveries.db"),
			deliveryqueue.Config{Seal: seal, Open: open})
		if err != nil {
			log.Fatal(err)
		}
		return queue
	}
	queue := open(old)
	req, err := http.NewRequest("POST", endpoint.URL+"/hook", http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{}); err != nil {
		log.Fatal(err)
	}
	queue.Close()

	queue = open(current, old)
	defer queue.Close()
	if err := queue.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: the endpoint got Bearer secret
}
