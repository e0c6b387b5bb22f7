package clients

import (
	"bufio"
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
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// sendTo returns a DeadLetter for a delivery.Transport or a deliveryqueue.Config
// that sends dead letters to an Amazon SQS queue. A message is text, and a
// request's body may have any bytes, so the request is in base64.
func sendTo(client *sqs.Client, queue string) func(context.Context, delivery.DeadLetter) error {
	return func(ctx context.Context, dead delivery.DeadLetter) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		var request bytes.Buffer
		if err := dead.Request.WriteProxy(&request); err != nil { // with the whole URL
			return err
		}
		_, err := client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:    aws.String(queue),
			MessageBody: aws.String(base64.StdEncoding.EncodeToString(request.Bytes())),
		})
		return err
	}
}

// readMessage returns the request of a message, which can be sent or enqueued
// again.
func readMessage(message string) (*http.Request, error) {
	text := base64.NewDecoder(base64.StdEncoding, strings.NewReader(message))
	req, err := http.ReadRequest(bufio.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.RequestURI = "" // a client refuses it
	return req, nil
}

// What failed for good goes to an Amazon SQS queue.
func Example_deadLetterToSQS() {
	endpoint := httptest.NewServer(http.NotFoundHandler())
	defer endpoint.Close()
	messages := make(chan string, 1)
	amazon := httptest.NewServer(fakeSQS(messages))
	defer amazon.Close()
	client := sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(amazon.URL), Credentials: aws.AnonymousCredentials{},
	})
	tr := &delivery.Transport{DeadLetter: sendTo(client, amazon.URL+"/123456789012/dead-letters")}
	defer tr.CloseIdleConnections()

	api := &http.Client{Transport: tr}
	resp, err := api.Post(endpoint.URL+"/hook", "application/json", strings.NewReader(`{"order": 7}`))
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()

	dead, err := readMessage(<-messages)
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(dead.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dead.Method, dead.URL.String() == endpoint.URL+"/hook", dead.Header.Get("Content-Type"), string(body))
	// Output:
	// POST true application/json {"order": 7}
}

// fakeSQS responds to SendMessage as Amazon SQS does.
func fakeSQS(messages chan<- string) http.Handler {
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
