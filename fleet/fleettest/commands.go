package fleettest

import (
	"strconv"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// The keys of a store. Their values are hashes, which is all that scripts use.
type hashes map[string]*hash

type hash struct {
	fields  map[string]lua.LValue // strings
	expires time.Time             // the zero time: never
}

// get returns the hash of a key, or nil.
func (h hashes) get(key string) *hash {
	found := h[key]
	if found != nil && !found.expires.IsZero() && !time.Now().Before(found.expires) {
		delete(h, key)
		return nil
	}
	return found
}

// call is redis.call.
func (e *engine) call(state *lua.LState) int {
	name, key := state.CheckString(1), ""
	if name != "TIME" {
		key = state.CheckString(2)
	}
	switch arguments := state.GetTop() - 1; {
	case name == "TIME" && arguments == 0:
		state.Push(e.time())
	case name == "HGET" && arguments == 2:
		state.Push(e.hashes.field(key, state.CheckString(3)))
	case name == "HMGET" && arguments >= 2:
		state.Push(e.some(key))
	case name == "HGETALL" && arguments == 1:
		state.Push(e.all(key))
	case name == "HSET" && arguments >= 3 && arguments%2 == 1:
		state.Push(e.set(key))
	case name == "PEXPIRE" && arguments == 2:
		state.Push(e.expire(key, state.CheckInt64(3)))
	default:
		state.RaiseError("fleettest: no %s with %d arguments", name, arguments)
	}
	return 1
}

func (e *engine) time() lua.LValue {
	now := time.Now()
	t := e.state.CreateTable(2, 0)
	t.Append(lua.LString(strconv.FormatInt(now.Unix(), 10)))
	t.Append(lua.LString(strconv.Itoa(now.Nanosecond() / 1000)))
	return t
}

func (h hashes) field(key, name string) lua.LValue {
	if found := h.get(key); found != nil {
		if value, ok := found.fields[name]; ok {
			return value
		}
	}
	return lua.LFalse
}

// some returns the values of the fields that the stack has after the key, false
// for those that there are not.
func (e *engine) some(key string) lua.LValue {
	t := e.state.CreateTable(e.state.GetTop()-2, 0)
	for i := 3; i <= e.state.GetTop(); i++ {
		t.RawSetInt(i-2, e.hashes.field(key, e.state.CheckString(i)))
	}
	return t
}

func (e *engine) all(key string) lua.LValue {
	found := e.hashes.get(key)
	if found == nil {
		return e.state.NewTable()
	}
	t := e.state.CreateTable(2*len(found.fields), 0)
	for name, value := range found.fields {
		t.Append(lua.LString(name))
		t.Append(value)
	}
	return t
}

// set sets the fields that the stack has after the key, and returns how many
// are new.
func (e *engine) set(key string) lua.LValue {
	h := e.hashes.get(key)
	if h == nil {
		h = &hash{fields: make(map[string]lua.LValue)}
		e.hashes[key] = h
	}
	before := len(h.fields)
	for i := 3; i < e.state.GetTop(); i += 2 {
		value := e.state.Get(i + 1)
		if n, ok := value.(lua.LNumber); ok {
			value = lua.LString(text(float64(n)))
		}
		if _, ok := value.(lua.LString); !ok {
			e.state.RaiseError("fleettest: HSET of a %s; it must be a string or a number", value.Type())
		}
		h.fields[e.state.CheckString(i)] = value
	}
	return lua.LNumber(len(h.fields) - before)
}

func (e *engine) expire(key string, milliseconds int64) lua.LValue {
	h := e.hashes.get(key)
	if h == nil {
		return lua.LNumber(0)
	}
	h.expires = time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	return lua.LNumber(1)
}
