package interop

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var chaosDuration = flag.Duration("chaos", 4*time.Second,
	"how long TestChaos lasts; the environment variable CHAOS overrides it")

var resumeMiB = flag.Int("resume", 0, "how many MiB TestResumeLargeObject downloads; 0 skips the test")

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "toxiproxy" {
		serveToxiproxy(os.Stdin, os.Stdout)
		return
	}
	flag.Parse()
	if text := os.Getenv("CHAOS"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "CHAOS is %q; it must be a duration above 0, such as 60s\n", text)
			os.Exit(2)
		}
		*chaosDuration = d
	}
	os.Exit(m.Run())
}
