// Written into a package of tests by patch.go. Each table of cases is written out as one line of JSON.
package dump

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"
)

var (
	tableTypes       = map[string]bool{} // the types that the tests declare
	packageVariables = map[string]any{}
	started          = time.Now()
	madeBy           = map[uintptr]maker{}
	kept             = []any{} // so that no address is used twice
)

type maker struct {
	function  string
	arguments []any
}

// dumpMade notes how a function value was made.
func dumpMade[T any](function string, made T, arguments ...any) T {
	kept = append(kept, made)
	madeBy[*(*uintptr)(unsafe.Pointer(&made))] = maker{function, arguments}
	return made
}

// dumpTable writes a table and returns an empty one in its place; anything else it returns as it is.
func dumpTable[T any](label string, value T, scope ...any) T {
	list := reflect.ValueOf(&value).Elem()
	if !isTable(list.Type()) {
		if strings.HasSuffix(label, "()") { // what a function of the tests always returns
			write(map[string]any{"variables": map[string]any{label: plain(list, 0)}})
		}
		return value
	}
	table := map[string]any{"test": callingTest(), "label": label, "with": dumpScope(scope)}
	rows := []any{}
	if list.Kind() == reflect.Map {
		names := list.MapKeys()
		sort.Slice(names, func(i, j int) bool { return fmt.Sprint(names[i]) < fmt.Sprint(names[j]) })
		for _, name := range names {
			rows = append(rows, map[string]any{"$key": fmt.Sprint(name), "$row": plain(list.MapIndex(name), 0)})
		}
	} else {
		for i := 0; i < list.Len(); i++ {
			row := plain(list.Index(i), 0)
			if row == nil {
				row = map[string]any{}
			}
			rows = append(rows, row)
		}
	}
	table["rows"] = rows
	write(table)
	var none T
	return none
}

func dumpScope(scope []any) map[string]any {
	result := map[string]any{}
	for i := 0; i+1 < len(scope); i += 2 {
		if scope[i+1] == nil || isTable(reflect.TypeOf(scope[i+1])) || reflect.TypeOf(scope[i+1]).Kind() == reflect.Func {
			continue
		}
		if value := plain(reflect.ValueOf(scope[i+1]), 0); value != nil {
			result[scope[i].(string)] = value
		}
	}
	return result
}

func TestDumpOfPackageVariables(t *testing.T) {
	result := map[string]any{}
	for name, pointer := range packageVariables {
		if value := plain(reflect.ValueOf(pointer).Elem(), 0); value != nil {
			result[name] = value
		}
	}
	write(map[string]any{"variables": result})
}

func isTable(kind reflect.Type) bool {
	if kind.Kind() != reflect.Slice && kind.Kind() != reflect.Array && kind.Kind() != reflect.Map {
		return false
	}
	row := kind.Elem()
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	here := reflect.TypeOf(maker{}).PkgPath()
	return row.Kind() == reflect.Struct && row.NumField() > 0 &&
		(row.Name() == "" || row.PkgPath() == here && tableTypes[row.Name()])
}

func callingTest() string {
	callers := make([]uintptr, 50)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	found := ""
	for {
		frame, more := frames.Next()
		name := frame.Function[strings.LastIndex(frame.Function, "/")+1:]
		name = name[strings.Index(name, ".")+1:]
		if strings.HasPrefix(name, "Test") {
			found, _, _ = strings.Cut(name, ".")
		}
		if !more {
			return found
		}
	}
}

func write(entry map[string]any) {
	file, err := os.OpenFile(os.Getenv("UPSTREAM_TABLES_OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(entry); err != nil {
		panic(err)
	}
	out.Flush()
}

// open returns the value in a place of its own, where unexported fields can be read.
func open(value reflect.Value) reflect.Value {
	if value.CanAddr() {
		return reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem()
	}
	place := reflect.New(value.Type()).Elem()
	place.Set(value)
	return place
}

// plain returns a value as JSON knows it; nil for an empty one. A pointer to an empty value is that value.
func plain(value reflect.Value, depth int) any {
	if !value.IsValid() || depth > 40 {
		return nil
	}
	value = open(value)
	kind := value.Type()
	if special, ok := plainSpecial(value, kind, depth); ok {
		return special
	}
	switch value.Kind() {
	case reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return plain(value.Elem(), depth+1)
	case reflect.Pointer:
		if value.IsNil() || opaque(kind.Elem().PkgPath()) && kind.Elem().Name() != "Clientset" {
			return nil
		}
		if inside := plain(value.Elem(), depth+1); inside != nil {
			return inside
		}
		return zero(value.Elem())
	case reflect.Func:
		return plainFunction(value)
	case reflect.Struct:
		return plainStruct(value, kind, depth)
	case reflect.Map:
		return plainMap(value, kind, depth)
	case reflect.Slice, reflect.Array:
		return plainList(value, kind, depth)
	case reflect.String:
		if value.String() == "" {
			return nil
		}
		return value.String()
	case reflect.Bool:
		if !value.Bool() {
			return nil
		}
		return true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if value.Int() == 0 {
			return nil
		}
		return value.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if value.Uint() == 0 {
			return nil
		}
		return value.Uint()
	case reflect.Float32, reflect.Float64:
		return value.Float()
	}
	return nil
}

func zero(value reflect.Value) any {
	switch value.Kind() {
	case reflect.String:
		return ""
	case reflect.Bool:
		return false
	case reflect.Struct, reflect.Map:
		return map[string]any{}
	case reflect.Slice:
		return []any{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32:
		return 0
	}
	return nil
}

func plainSpecial(value reflect.Value, kind reflect.Type, depth int) (any, bool) {
	path, name := kind.PkgPath(), kind.Name()
	switch {
	case path == "time" && name == "Duration":
		if value.Int() == 0 {
			return nil, true
		}
		return time.Duration(value.Int()).String(), true
	case path == "time" && name == "Time":
		return plainTime(value.Interface().(time.Time)), true
	case strings.HasSuffix(path, "meta/v1") && (name == "Time" || name == "MicroTime"):
		return plain(value.Field(0), depth+1), true
	case strings.HasSuffix(path, "api/resource") && name == "Quantity":
		if value.IsZero() {
			return nil, true
		}
		return value.Addr().Interface().(fmt.Stringer).String(), true
	case strings.HasSuffix(path, "util/intstr") && name == "IntOrString":
		return value.Addr().Interface().(fmt.Stringer).String(), true
	case name == "NodeInfo" && value.Kind() == reflect.Struct:
		return plainNodeInfo(value, depth), true
	case strings.HasSuffix(path, "/fake") && name == "Clientset":
		return plainClientset(value, depth), true
	}
	if store, ok := value.Interface().(interface{ List() []any }); ok && !isNil(value) { // a cache of client-go's
		return plainStore(store.List(), depth), true
	}
	if opaque(path) {
		return nil, true
	}
	if value.Kind() == reflect.Pointer && !value.IsNil() && value.MethodByName("Code").IsValid() &&
		value.MethodByName("Reasons").IsValid() {
		code := value.MethodByName("Code").Call(nil)[0].Interface()
		reasons := value.MethodByName("Reasons").Call(nil)[0].Interface()
		return map[string]any{"code": fmt.Sprint(code), "reasons": reasons}, true
	}
	if failure, ok := value.Interface().(error); ok && value.Kind() == reflect.Pointer && !value.IsNil() &&
		!strings.HasPrefix(kind.Elem().PkgPath(), "k8s.io/api/") {
		return map[string]any{"error": failure.Error()}, true
	}
	return nil, false
}

func isNil(value reflect.Value) bool {
	return (value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface) && value.IsNil()
}

// plainStore returns the objects of a cache, in an order that does not depend on chance.
func plainStore(objects []any, depth int) any {
	result := plain(reflect.ValueOf(objects), depth+1)
	if list, ok := result.([]any); ok {
		sort.Slice(list, func(i, j int) bool {
			one, _ := json.Marshal(list[i])
			other, _ := json.Marshal(list[j])
			return string(one) < string(other)
		})
	}
	return result
}

func opaque(path string) bool {
	if path == "k8s.io/client-go/testing" {
		return false // the requests that are expected
	}
	for _, prefix := range []string{"k8s.io/client-go", "k8s.io/klog", "testing", "context", "sync", "net",
		"github.com/", "k8s.io/component-base", "k8s.io/apiserver", "reflect", "go/", "os", "log"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// plainTime tells times of the run relative to its start, in seconds.
func plainTime(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	apart := at.Sub(started).Round(time.Second)
	if apart.Abs() < 100*24*time.Hour {
		return fmt.Sprintf("now%+ds", int(apart.Seconds()))
	}
	return at.UTC().Format(time.RFC3339)
}

func plainFunction(value reflect.Value) any {
	if value.IsNil() {
		return nil
	}
	made, ok := madeBy[*(*uintptr)(unsafe.Pointer(value.UnsafeAddr()))]
	if ok {
		arguments := []any{}
		for _, each := range made.arguments {
			argument := any(nil)
			if each != nil && !opaque(reflect.TypeOf(each).PkgPath()) {
				argument = plain(reflect.ValueOf(each), 0)
			}
			arguments = append(arguments, argument)
		}
		return map[string]any{"call": made.function, "arguments": arguments}
	}
	name := runtime.FuncForPC(value.Pointer()).Name()
	name = name[strings.LastIndex(name, "/")+1:]
	return map[string]any{"function": name[strings.Index(name, ".")+1:]}
}

func plainStruct(value reflect.Value, kind reflect.Type, depth int) any {
	result := map[string]any{}
	for i := 0; i < kind.NumField(); i++ {
		field := kind.Field(i)
		inside := plain(value.Field(i), depth+1)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inline := strings.Contains(field.Tag.Get("json"), "inline") || field.Anonymous && tag == ""
		if inner, ok := inside.(map[string]any); ok && inline {
			for name, each := range inner {
				result[name] = each
			}
			continue
		}
		if tag == "" || tag == "-" {
			tag = field.Name
		}
		if !empty(inside) || inside != nil && field.Type.Kind() == reflect.Pointer {
			result[tag] = inside
		}
	}
	if _, isObject := kind.FieldByName("ObjectMeta"); isObject && strings.HasPrefix(kind.PkgPath(), "k8s.io/api/") {
		result["kind"] = kind.Name()
		delete(result, "apiVersion")
	}
	if len(result) == 0 {
		return nil
	}
	return result
}

func empty(value any) bool {
	switch each := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(each) == 0
	case []any:
		return len(each) == 0
	}
	return false
}

func plainMap(value reflect.Value, kind reflect.Type, depth int) any {
	if value.Len() == 0 {
		return nil
	}
	if kind.Elem().Kind() == reflect.Struct && kind.Elem().NumField() == 0 {
		names := []string{}
		for _, name := range value.MapKeys() {
			names = append(names, fmt.Sprint(name))
		}
		sort.Strings(names)
		return names
	}
	result := map[string]any{}
	for _, name := range value.MapKeys() {
		inside := plain(value.MapIndex(name), depth+1)
		if inside == nil {
			inside = zero(value.MapIndex(name))
		}
		result[fmt.Sprint(name)] = inside
	}
	return result
}

func plainList(value reflect.Value, kind reflect.Type, depth int) any {
	if kind.Elem().Kind() == reflect.Uint8 {
		if kind.Kind() == reflect.Slice && value.Len() > 0 {
			return string(value.Bytes())
		}
		return nil
	}
	if value.Len() == 0 {
		return nil
	}
	result := []any{}
	for i := 0; i < value.Len(); i++ {
		result = append(result, plain(value.Index(i), depth+1))
	}
	return result
}

func plainNodeInfo(value reflect.Value, depth int) any {
	result := map[string]any{}
	for i := 0; i < value.NumField(); i++ {
		switch value.Type().Field(i).Name {
		case "node":
			result["node"] = plain(value.Field(i), depth+1)
		case "Pods":
			result["pods"] = plain(value.Field(i), depth+1)
		}
	}
	return result
}

// plainClientset returns the objects that a fake client was made with.
func plainClientset(value reflect.Value, depth int) any {
	tracker := open(value.FieldByName("tracker"))
	for tracker.Kind() == reflect.Interface || tracker.Kind() == reflect.Pointer {
		if tracker.IsNil() {
			return nil
		}
		tracker = open(tracker.Elem())
	}
	for tracker.FieldByName("ObjectTracker").IsValid() {
		tracker = open(tracker.FieldByName("ObjectTracker"))
		for tracker.Kind() == reflect.Interface || tracker.Kind() == reflect.Pointer {
			tracker = open(tracker.Elem())
		}
	}
	objects := tracker.FieldByName("objects")
	if !objects.IsValid() {
		return nil
	}
	result := []any{}
	objects = open(objects)
	for _, kind := range sorted(objects) {
		of := open(objects.MapIndex(kind))
		for _, name := range sorted(of) {
			result = append(result, plain(of.MapIndex(name), depth+1))
		}
	}
	return result
}

func sorted(value reflect.Value) []reflect.Value {
	names := value.MapKeys()
	sort.Slice(names, func(i, j int) bool {
		return fmt.Sprint(names[i].Interface()) < fmt.Sprint(names[j].Interface())
	})
	return names
}
