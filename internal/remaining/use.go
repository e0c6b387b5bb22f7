package remaining

// A Use is what some requests cost: the known costs, and how many cost what is learned.
type Use struct {
	known   float64
	priced  int // how many have a known cost
	learned int
}

// Add adds n requests, or removes -n. known is the cost of each, or 0 if it is learned.
func (u *Use) Add(n int, known float64) {
	if known <= 0 {
		u.learned += n
		return
	}
	u.priced += n
	if u.known += float64(n) * known; u.priced == 0 {
		u.known = 0 // drops rounding errors
	}
}

// Units returns the total. mean is the cost of each request whose cost is learned.
func (u *Use) Units(mean float64) float64 { return u.known + float64(u.learned)*mean }
