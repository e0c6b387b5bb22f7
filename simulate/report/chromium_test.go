package report

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// The page in a real browser: what it draws, and what the mouse and the keyboard
// do. AWSRETRY_SCREENSHOTS names a folder for pictures of it.
func TestInChromium(t *testing.T) {
	b := startBrowser(t)
	open := func(t *testing.T, s scenario.Scenario) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "out.html")
		page := write(t, run(t, s), Origin{Command: "awsretry simulate lively", Version: "v1.2.3"})
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		b.command(nil, "Page.navigate", values{"url": (&url.URL{Scheme: "file", Path: file}).String()})
		eventually(t, "the page is drawn", func() bool {
			return b.holds(`location.href.endsWith("out.html") && document.documentElement.dataset.drawn === "yes"`)
		})
	}
	s := lively()
	const hostile = `<b id="injected">bold</b> ` + "\u0625\u0639\u0627\u062f\u0629"
	s.Settings[1].Name = hostile
	b.command(nil, "Emulation.setDeviceMetricsOverride", values{
		"width": 1200, "height": 1600, "deviceScaleFactor": 1, "mobile": false,
	})
	b.scheme("light")
	open(t, s)

	t.Run("charts", func(t *testing.T) {
		// A chart for the load of each setting, two for buckets, one for a limiter,
		// and one for the clients that join of each setting.
		if n := eval[int](b, `document.querySelectorAll("canvas").length`); n != 9 {
			t.Errorf("%d charts, want 9", n)
		}
		for i, colors := range eval[[]map[string]int](b, colorsOfCharts) {
			if len(colors) < 4 {
				t.Errorf("chart %d has only the colors %v", i, colors)
			}
			if i%9 == 0 && (colors["213,94,0"] < 50 || colors["0,114,178"] < 50 || colors["241,236,223"] < 1000) {
				t.Errorf("chart %d has no attempts, no goodput or no event: %v", i, colors)
			}
		}
	})
	t.Run("text", func(t *testing.T) {
		if n := eval[int](b, `document.querySelectorAll("#injected").length`); n != 0 {
			t.Error("a name became an element")
		}
		if got := eval[string](b, `document.querySelectorAll("#charts h3")[1].textContent`); got != hostile {
			t.Errorf("the heading is %q", got)
		}
		if shown := eval[string](b, `document.getElementById("scenario").textContent`); !strings.Contains(
			shown,
			"max_attempts: 5",
		) {
			t.Errorf("the scenario is %s", shown)
		}
		if overflow := eval[bool](b, `document.documentElement.scrollWidth > innerWidth`); overflow {
			t.Error("the page is wider than the window")
		}
	})
	t.Run("colors", func(t *testing.T) {
		light := brightness(b.screenshot(t, "light"))
		b.scheme("dark")
		eventually(t, "the page is dark", func() bool { return eval[string](b, background) == "rgb(22, 25, 29)" })
		dark := brightness(b.screenshot(t, "dark"))
		if light < 200 || dark > 80 {
			t.Errorf("the mean brightness is %d and %d", light, dark)
		}
		eventually(t, "the charts are drawn again", func() bool {
			colors := eval[[]map[string]int](b, colorsOfCharts)[0]
			return colors["86,180,233"] >= 50 && colors["59,53,39"] >= 1000
		})
		eval[any](b, `(() => {
			const theme = document.getElementById("theme");
			theme.value = "light";
			theme.dispatchEvent(new Event("change"));
		})()`)
		if got := eval[string](b, background); got != "rgb(255, 255, 255)" {
			t.Errorf("the background is %s although the reader wants light", got)
		}
	})
	t.Run("cursor", func(t *testing.T) {
		at := b.chart(t, 0)
		b.mouse("mouseMoved", at.x+at.width*0.5, at.y+at.height/2)
		eventually(t, "all charts show the time of the cursor", func() bool {
			times := eval[[]string](b, timesUnderCursor)
			return len(times) == 9 && !slices.ContainsFunc(times, func(shown string) bool {
				d, err := time.ParseDuration(shown)
				return err != nil || d < 14*time.Second || d > 16*time.Second
			})
		})
		values := eval[[]string](
			b,
			`[...document.querySelector(".u-legend").querySelectorAll(".u-value")].map((e) => e.textContent)`,
		)
		if len(values) != 9 || values[2] == "–" || values[2] == "" {
			t.Errorf("the values are %q", values)
		}
	})
	t.Run("zoom", func(t *testing.T) {
		at := b.chart(t, 0)
		b.drag(at.x+at.width/3, at.x+at.width*2/3, at.y+at.height/2)
		eventually(t, "10s to 20s are shown", func() bool { return eval[string](b, shownRange) == "10s to 20s" })
		last := b.chart(t, 8)
		b.mouse("mouseMoved", last.x+last.width-2, last.y+last.height/2)
		eventually(t, "the other charts zoom too", func() bool {
			return !slices.ContainsFunc(eval[[]string](b, timesUnderCursor), func(shown string) bool {
				d, err := time.ParseDuration(shown)
				return err != nil || d < 19*time.Second || d > 20500*time.Millisecond
			})
		})
		eval[any](b, `document.getElementById("reset").focus()`)
		b.key("Enter", "Enter", "\r", 13)
		eventually(t, "the whole run is shown", func() bool { return eval[string](b, shownRange) == "0s to 30s" })
		eval[any](b, `document.getElementById("in").click()`)
		if got := eval[string](b, shownRange); got != "7.5s to 22.5s" {
			t.Errorf("zooming in shows %s", got)
		}
		for range 5 {
			eval[any](b, `document.getElementById("right").click()`)
		}
		if got := eval[string](b, shownRange); got != "15s to 30s" {
			t.Errorf("going right shows %s", got)
		}
	})
	t.Run("names", func(t *testing.T) {
		const name = `document.querySelectorAll(".u-legend .u-series th")[4]`
		eval[any](b, name+`.focus()`)
		before := eval[string](b, name+`.getAttribute("aria-pressed")`)
		b.key("Enter", "Enter", "\r", 13)
		if after := eval[string](b, name+`.getAttribute("aria-pressed")`); before != "false" || after != "true" {
			t.Errorf("the curve is shown: %s, then %s", before, after)
		}
	})
	t.Run("copy", func(t *testing.T) {
		eval[any](b, `document.getElementById("copy").click()`)
		eventually(t, "the scenario is selected", func() bool {
			return eval[string](b, `document.getElementById("copied").textContent`) != "" &&
				strings.Contains(eval[string](b, `String(getSelection())`), "name: lively")
		})
	})
	t.Run("quiet", func(t *testing.T) {
		for _, method := range []string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"} {
			if all := b.heard(method); len(all) > 0 {
				t.Errorf("%s: %s", method, all)
			}
		}
		for _, request := range b.heard("Network.requestWillBeSent") {
			if !strings.Contains(request, `"url":"file:///`) && !strings.Contains(request, `"url":"about:blank"`) {
				t.Errorf("a request: %.300s", request)
			}
		}
	})
	// A run of a second with nothing but its load. The first page has to be gone.
	t.Run("hardly anything", func(t *testing.T) {
		b.command(nil, "Page.navigate", values{"url": "about:blank"})
		eventually(t, "the page is empty", func() bool { return b.holds(`location.href === "about:blank"`) })
		s := lively()
		s.Name, s.About, s.Events, s.Duration = "", "", nil, seconds(1)
		s.Settings = []scenario.Setting{{Use: scenario.UseNone}}
		open(t, s)
		if colors := eval[[]map[string]int](b, colorsOfCharts); len(colors) != 1 || len(colors[0]) < 4 {
			t.Errorf("the chart has the colors %v", colors)
		}
		if all := b.heard("Runtime.exceptionThrown"); len(all) > 0 {
			t.Errorf("%s", all)
		}
	})
	// Last, as the browser logs what it refuses.
	t.Run("policy", func(t *testing.T) {
		var reached atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		defer server.Close()
		fetched := eval[string](b, `fetch("`+server.URL+`").then(() => "yes", () => "no")`)
		if fetched != "no" || reached.Load() != 0 {
			t.Errorf("fetched: %s, %d requests", fetched, reached.Load())
		}
		ran := eval[bool](b, `(() => {
			const s = document.createElement("script");
			s.textContent = "window.ran = true";
			document.body.append(s);
			return window.ran === true;
		})()`)
		if ran {
			t.Error("a script runs that is not the page's")
		}
	})
}

const (
	background = `getComputedStyle(document.body).backgroundColor`
	shownRange = `document.getElementById("range").textContent`

	timesUnderCursor = `[...document.querySelectorAll(".u-legend")].map((l) => l.querySelector(".u-value").textContent)`

	// colorsOfCharts counts the pixels of each opaque color of each chart.
	colorsOfCharts = `[...document.querySelectorAll("canvas")].map((c) => {
		const count = {}, all = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		for (let i = 0; i < all.length; i += 4) {
			if (all[i + 3] !== 255) continue;
			const color = all.slice(i, i + 3).join();
			count[color] = (count[color] || 0) + 1;
		}
		return count;
	})`
)

// eventually waits until a condition is true. The number of tries only bounds a
// test that fails.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 600 {
		if condition() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not so: %s", what)
}

type box struct{ x, y, width, height float64 }

// chart scrolls to a chart and returns where its curves are in the window.
func (b *browser) chart(t *testing.T, i int) box {
	t.Helper()
	r := eval[[][]float64](b, `[...document.querySelectorAll(".u-over")].map((e, i, all) => {
		if (i === 0) all[`+string(rune('0'+i))+`].scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect();
		return [r.x, r.y, r.width, r.height];
	})`)[i]
	return box{r[0], r[1], r[2], r[3]}
}

// scheme sets whether the system is light or dark.
func (b *browser) scheme(name string) {
	b.command(nil, "Emulation.setEmulatedMedia", values{
		"features": []values{{"name": "prefers-color-scheme", "value": name}},
	})
}

func (b *browser) screenshot(t *testing.T, name string) image.Image {
	t.Helper()
	var shot struct{ Data []byte }
	b.command(&shot, "Page.captureScreenshot", values{"format": "png"})
	if folder := os.Getenv("AWSRETRY_SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), shot.Data, 0o666); err != nil {
			t.Error(err)
		}
	}
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// brightness returns the mean brightness of a picture, from 0 to 255.
func brightness(picture image.Image) int {
	sum, pixels := 0, 0
	size := picture.Bounds()
	for x := size.Min.X; x < size.Max.X; x += 7 {
		for y := size.Min.Y; y < size.Max.Y; y += 7 {
			r, g, b, _ := picture.At(x, y).RGBA()
			sum += int(r+g+b) / 3 >> 8
			pixels++
		}
	}
	return sum / pixels
}
