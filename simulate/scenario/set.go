package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set returns s with another value of one field. The path is the field's, such as
// service.capacity or events[0].from, and the value is written as in the file. An
// empty value omits the field.
func Set(s Scenario, path, value string) (Scenario, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(value), &document); err != nil {
		return s, fmt.Errorf("simulate: the value %s: %w", clipped(value), err)
	}
	list, v, err := place(reflect.ValueOf(&s).Elem(), path)
	if err != nil {
		return s, fmt.Errorf("simulate: %s: %w", clipped(path), err)
	}
	v.SetZero()
	d := decoder{at: map[string]*yaml.Node{}}
	switch {
	case len(document.Content) > 0:
		d.decode(document.Content[0], v, path)
	case list.IsValid(): // its element goes
		kept := reflect.MakeSlice(list.Type(), 0, list.Len())
		for i := range list.Len() {
			if list.Index(i).UnsafeAddr() != v.UnsafeAddr() {
				kept = reflect.Append(kept, list.Index(i))
			}
		}
		list.Set(kept)
	}
	if len(d.faults) == 0 {
		return s, s.Validate()
	}
	for i := range d.faults {
		d.faults[i].position = "" // in a file that nobody has seen
	}
	return s, joined(d.faults)
}

// place returns the field of v at a path, and the list that it is an element of,
// if it is one. It copies what v shares with other scenarios.
func place(v reflect.Value, path string) (list, field reflect.Value, err error) {
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		if v.Kind() == reflect.Pointer {
			own := reflect.New(v.Type().Elem())
			if !v.IsNil() {
				own.Elem().Set(v.Elem())
			}
			v.Set(own)
			v = own.Elem()
		}
		if v.Kind() != reflect.Struct || name == "" {
			return list, v, errors.New("there is no such line; it must be a path such as service.capacity or events[0].from")
		}
		var known bool
		if v, known = fieldByName(v, name); !known {
			return list, v, fmt.Errorf("unknown field %s", clipped(name))
		}
		list = reflect.Value{}
		if !indexed {
			continue
		}
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || v.Kind() != reflect.Slice || i < 0 || i >= v.Len() {
			return list, v, fmt.Errorf("%s is not in the list", clipped(part))
		}
		list = v
		list.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		v = list.Index(i)
	}
	return list, v, nil
}

// WithDuration returns s with another duration. OverTime is repeated or cut.
func (s Scenario) WithDuration(d Duration) Scenario {
	s.Duration = d
	if s.OverTime == nil || s.OverTime.Every <= 0 {
		return s
	}
	o := *s.OverTime
	steps := int((d + o.Every - 1) / o.Every)
	for _, list := range []*[]float64{&o.Rate, &o.Throttled, &o.Errors, &o.Latency} {
		if len(*list) == 0 {
			continue
		}
		var repeated []float64
		for i := range steps {
			repeated = append(repeated, (*list)[i%len(*list)])
		}
		*list = repeated
	}
	s.OverTime = &o
	return s
}
