package fleettest

import (
	"errors"
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// toNumber returns tonumber as it is in C. The interpreter's own does not know
// exponents without a point, such as 1e-05.
func toNumber(other lua.LGFunction) lua.LGFunction {
	return func(state *lua.LState) int {
		text, ok := state.Get(1).(lua.LString)
		if !ok || state.GetTop() != 1 {
			return other(state)
		}
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return other(state) // a hexadecimal number, space around it, or none at all
		}
		state.Push(lua.LNumber(n))
		return 1
	}
}

// format returns string.format as it is in C, and faster, for the format that
// keeps all of a number.
func format(other lua.LGFunction) lua.LGFunction {
	return func(state *lua.LState) int {
		n, ok := state.Get(2).(lua.LNumber)
		if !ok || state.GetTop() != 2 || state.Get(1) != lua.LString("%.17g") {
			return other(state)
		}
		state.Push(lua.LString(text(float64(n))))
		return 1
	}
}

// text formats a number as C does with %.17g.
func text(x float64) string {
	switch whole := int64(x); {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case math.Abs(x) < 1e15 && x == float64(whole) && !(whole == 0 && math.Signbit(x)):
		return strconv.FormatInt(whole, 10)
	}
	return strconv.FormatFloat(x, 'g', 17, 64)
}
