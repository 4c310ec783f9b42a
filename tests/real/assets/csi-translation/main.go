// Answers for csi-translation-lib: reads one question (JSON) a line, writes one answer a line.
//
//	{"do": "csi", "object": PersistentVolume}        the volume in its CSI form
//	{"do": "in-tree", "object": PersistentVolume}    the volume in its old form
//	{"do": "inline", "object": Volume, "namespace"}  a pod's volume as a CSI PersistentVolume
//	{"do": "class", "object": StorageClass}          the class as its driver reads it
//
// An answer is {"object": ...}, {"refused": message}, or {"ended": message} where the library panics.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type question struct {
	Do        string          `json:"do"`
	Object    json.RawMessage `json:"object"`
	Namespace string          `json:"namespace"`
}

type answer struct {
	Object  any    `json:"object,omitempty"`
	Refused string `json:"refused,omitempty"`
	Ended   string `json:"ended,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := out.Encode(answered(lines.Bytes())); err != nil {
			panic(err)
		}
	}
}

func answered(line []byte) (given answer) {
	defer func() {
		if ended := recover(); ended != nil {
			given = answer{Ended: fmt.Sprint(ended)}
		}
	}()
	object, err := translated(line)
	if err != nil {
		return answer{Refused: err.Error()}
	}
	return answer{Object: object}
}

func translated(line []byte) (any, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		panic(err)
	}
	library, logger := translation.New(), klog.Background()
	switch asked.Do {
	case "inline":
		return library.TranslateInTreeInlineVolumeToCSI(logger, read[v1.Volume](asked.Object), asked.Namespace)
	case "class":
		class := read[storage.StorageClass](asked.Object)
		return library.TranslateInTreeStorageClassToCSI(logger, class.Provisioner, class)
	case "csi":
		return library.TranslateInTreePVToCSI(logger, read[v1.PersistentVolume](asked.Object))
	}
	return library.TranslateCSIPVToInTree(read[v1.PersistentVolume](asked.Object))
}

func read[T any](object []byte) *T {
	read := new(T)
	if err := json.Unmarshal(object, read); err != nil {
		panic(err)
	}
	return read
}
