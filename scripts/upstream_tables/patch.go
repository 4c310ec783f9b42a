// Command patch rewrites the tests of one Go package in place, so that each loop over a table of cases writes the
// table out (see dump.go) and then runs over nothing.
//
//	go run patch.go FOLDER TEMPLATE
//
// It prints, as JSON, the package's test functions and which of them contain a loop or call a function of the tests.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

type edit struct {
	at   int
	text string
}

type found struct {
	Package string   `json:"package"`
	Tests   []string `json:"tests"`
	Types   []string `json:"-"`
}

func main() {
	folder, template := os.Args[1], os.Args[2]
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	must(err)
	result := found{}
	files := token.NewFileSet()
	parsed := map[string]*ast.File{}
	functionTypes := map[string]bool{}
	variables := []string{}
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		must(err)
		parsed[path] = file
		result.Package = file.Name.Name
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				result.Types = append(result.Types, spec.Name.Name)
				if _, isFunction := spec.Type.(*ast.FuncType); isFunction {
					functionTypes[spec.Name.Name] = true
				}
			}
			return true
		})
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				result.Tests = append(result.Tests, f.Name.Name)
			}
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						if name.Name != "_" {
							variables = append(variables, name.Name)
						}
					}
				}
			}
		}
	}
	for path, file := range parsed {
		source, err := os.ReadFile(path)
		must(err)
		must(os.WriteFile(path, apply(source, edits(files, file, source, functionTypes)), 0o644))
	}
	writeDumper(folder, template, result, variables)
	sort.Strings(result.Tests)
	must(json.NewEncoder(os.Stdout).Encode(result))
}

func writeDumper(folder, template string, result found, variables []string) {
	text, err := os.ReadFile(template)
	must(err)
	out := strings.Replace(string(text), "package dump", "package "+result.Package, 1)
	out += "\nfunc init() {\n"
	for _, name := range result.Types {
		out += fmt.Sprintf("\ttableTypes[%q] = true\n", name)
	}
	for _, name := range variables {
		out += fmt.Sprintf("\tpackageVariables[%q] = &%s\n", name, name)
	}
	must(os.WriteFile(filepath.Join(folder, "zz_tables_dump_test.go"), []byte(out+"}\n"), 0o644))
}

// edits returns the insertions for one file: around what loops range over, and around the functions that functions
// of the tests return.
func edits(files *token.FileSet, file *ast.File, source []byte, functionTypes map[string]bool) []edit {
	var all []edit
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	around := func(from, to token.Pos, before, after string) {
		all = append(all, edit{offset(from), before}, edit{offset(to), after})
	}
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		walk(function.Body, parameters(function.Type), func(loop *ast.RangeStmt, scope []string) {
			if onlyAssigns(loop.Body) {
				return
			}
			label := "literal"
			if name, ok := loop.X.(*ast.Ident); ok {
				label = name.Name
			}
			if call, ok := loop.X.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && len(call.Args) == 0 {
					label = name.Name + "()"
				}
			}
			after := ""
			for _, name := range scope {
				if name != label {
					after += fmt.Sprintf(", %q, %s", name, name)
				}
			}
			around(loop.X.Pos(), loop.X.End(), fmt.Sprintf("dumpTable(%q, ", label), after+")")
		})
		if function.Recv == nil && makesFunction(function.Type, functionTypes) {
			for _, statement := range function.Body.List {
				if back, ok := statement.(*ast.ReturnStmt); ok && len(back.Results) == 1 {
					arguments := ""
					for _, name := range parameters(function.Type) {
						arguments += ", " + name
					}
					result := function.Type.Results.List[0].Type
					kind := string(source[offset(result.Pos()):offset(result.End())])
					around(back.Results[0].Pos(), back.Results[0].End(),
						fmt.Sprintf("dumpMade(%q, (%s)(", function.Name.Name, kind), ")"+arguments+")")
				}
			}
		}
	}
	return all
}

// walk calls visit for each loop in a body, with the names that are in scope there.
func walk(block ast.Node, scope []string, visit func(*ast.RangeStmt, []string)) {
	switch node := block.(type) {
	case *ast.BlockStmt:
		walkList(node.List, scope, visit)
	case *ast.CaseClause:
		walkList(node.Body, scope, visit)
	case *ast.RangeStmt:
		visit(node, scope)
		inner := scope
		for _, each := range []ast.Expr{node.Key, node.Value} {
			if name, ok := each.(*ast.Ident); ok && node.Tok == token.DEFINE {
				inner = with(inner, name.Name)
			}
		}
		walk(node.Body, inner, visit)
	case nil:
	default:
		ast.Inspect(node, func(inside ast.Node) bool {
			if inside == node {
				return true
			}
			switch each := inside.(type) {
			case *ast.FuncLit:
				inner := scope
				for _, name := range parameters(each.Type) {
					inner = with(inner, name)
				}
				walk(each.Body, inner, visit)
				return false
			case *ast.BlockStmt, *ast.RangeStmt, *ast.CaseClause:
				walk(each, scope, visit)
				return false
			}
			return true
		})
	}
}

func walkList(list []ast.Stmt, scope []string, visit func(*ast.RangeStmt, []string)) {
	for _, statement := range list {
		walk(statement, scope, visit)
		switch each := statement.(type) {
		case *ast.AssignStmt:
			if each.Tok == token.DEFINE {
				for _, left := range each.Lhs {
					scope = with(scope, left.(*ast.Ident).Name)
				}
			}
		case *ast.DeclStmt:
			if declared, ok := each.Decl.(*ast.GenDecl); ok && declared.Tok == token.VAR {
				for _, spec := range declared.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						scope = with(scope, name.Name)
					}
				}
			}
		}
	}
}

func with(scope []string, name string) []string {
	if name == "_" {
		return scope
	}
	result := []string{}
	for _, each := range scope {
		if each != name {
			result = append(result, each)
		}
	}
	return append(result, name)
}

func parameters(kind *ast.FuncType) []string {
	names := []string{}
	for _, field := range kind.Params.List {
		for _, name := range field.Names {
			if name.Name != "_" {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func makesFunction(kind *ast.FuncType, functionTypes map[string]bool) bool {
	if kind.Results == nil || len(kind.Results.List) != 1 || kind.TypeParams != nil {
		return false
	}
	switch result := kind.Results.List[0].Type.(type) {
	case *ast.Ident:
		return functionTypes[result.Name]
	case *ast.FuncType:
		return true
	}
	return false
}

func onlyAssigns(body *ast.BlockStmt) bool {
	for _, each := range body.List {
		if _, ok := each.(*ast.AssignStmt); !ok {
			return false
		}
	}
	return len(body.List) > 0
}

func apply(source []byte, all []edit) []byte {
	sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
	out, last := []byte{}, 0
	for _, each := range all {
		out = append(append(out, source[last:each.at]...), each.text...)
		last = each.at
	}
	return append(out, source[last:]...)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "patch:", err)
		os.Exit(1)
	}
}
