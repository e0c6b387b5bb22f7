package deliveryqueue_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// sendTo returns a Config.DeadLetter that sends dead letters to an Amazon SQS
// queue, in the format of delivery.DirQueue's files. A message is text, and a
// request's body may have any bytes, so the letter is in base64.
func sendTo(client *sqs.Client, queue string) func(context.Context, delivery.DeadLetter) error {
	return func(ctx context.Context, dead delivery.DeadLetter) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		var letter bytes.Buffer
		if err := delivery.WriteLetter(&letter, dead, time.Now()); err != nil {
			return err
		}
		_, err := client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:    aws.String(queue),
			MessageBody: aws.String(base64.StdEncoding.EncodeToString(letter.Bytes())),
		})
		return err
	}
}

// receive returns the dead letter of a message, and its request, which Enqueue
// takes again.
func receive(message string) (delivery.Letter, *http.Request, error) {
	letter, err := base64.StdEncoding.DecodeString(message)
	if err != nil {
		return delivery.Letter{}, nil, err
	}
	return delivery.ReadLetter(bytes.NewReader(letter), int64(len(letter)))
}

// What failed for good goes to an Amazon SQS queue. If that refuses it, or
// cannot be reached, the dead letter stays in the store.
func ExampleConfig_deadLetter() {
	endpoint := httptest.NewServer(http.NotFoundHandler())
	defer endpoint.Close()
	messages := make(chan string, 1)
	amazon := httptest.NewServer(sqsQueue(messages))
	defer amazon.Close()
	client := sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(amazon.URL), Credentials: aws.AnonymousCredentials{},
	})
	dir, err := os.MkdirTemp("", "deliveryqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	queue, err := deliveryqueue.Open(ctx, filepath.Join(dir, "deliveries.db"), deliveryqueue.Config{
		DeadLetter: sendTo(client, amazon.URL+"/123456789012/dead-letters"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	req, err := http.NewRequest("POST", endpoint.URL+"/hook", strings.NewReader(`{"order": 7}`))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{IdempotencyKey: "7"}); err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- queue.Run(ctx) }()

	letter, dead, err := receive(<-messages)
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(dead.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %d after %d attempt: %s, order %s\n",
		letter.Reason, letter.Status, letter.Attempts, body, dead.Header.Get("Idempotency-Key"))
	stop()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	stats, err := queue.Stats(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Dead, "dead letters in the store")
	// Output:
	// permanent 404 after 1 attempt: {"order": 7}, order 7
	// 0 dead letters in the store
}

// sqsQueue responds to SendMessage as Amazon SQS does.
func sqsQueue(messages chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var input struct{ MessageBody string }
		err := json.NewDecoder(req.Body).Decode(&input)
		if err != nil || req.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" {
			http.Error(w, `{"__type": "com.amazonaws.sqs#InvalidMessageContents"}`, http.StatusBadRequest)
			return
		}
		sum := md5.Sum([]byte(input.MessageBody))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		fmt.Fprintf(w, `{"MessageId": "1", "MD5OfMessageBody": %q}`, hex.EncodeToString(sum[:]))
		messages <- input.MessageBody
	})
}
