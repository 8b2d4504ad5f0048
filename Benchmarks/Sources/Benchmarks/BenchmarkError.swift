/// Why a benchmark could not be run, as a sentence.
package struct BenchmarkError: Error, CustomStringConvertible {
    package let description: String

    package init(_ sentence: String) { description = sentence }
}
