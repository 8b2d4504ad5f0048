/// Finds a known name that the user probably meant, for error messages.
package enum EditDistance {
    /// The known name that is most similar to the text; `nil` if more than a third of the letters differ.
    package static func nearest(to text: String, among names: [String]) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let ranked = names.map { (name: $0, distance: between(text.lowercased(), $0)) }
        guard let best = ranked.min(by: { $0.distance < $1.distance }) else { return nil }
        return best.distance <= max(1, best.name.utf8.count / 3) ? best.name : nil
    }

    /// A hint for the end of an error sentence, such as `; did you mean "list"?`; empty without a similar name.
    package static func hint(for text: String, among names: [String]) -> String {
        nearest(to: text, among: names).map { "; did you mean \"\($0)\"?" } ?? ""
    }

    /// Joins names for an error sentence: `a`, `a or b`, or `a, b or c`.
    package static func alternatives(_ names: [String]) -> String {
        guard let last = names.last, names.count > 1 else { return names.first ?? "" }
        return names.dropLast().joined(separator: ", ") + " or " + last
    }

    /// The number of insertions, deletions, replacements and swaps between two texts (optimal string alignment).
    static func between(_ left: String, _ right: String) -> Int {
        let a = Array(left.utf8)
        let b = Array(right.utf8)
        var beforeLast: [Int] = []
        var last = Array(0...b.count)
        for i in 0..<a.count {
            var row = [i + 1]
            for j in 0..<b.count {
                var best = min(last[j] + (a[i] == b[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, beforeLast[j - 1] + 1) }
                row.append(best)
            }
            beforeLast = last
            last = row
        }
        return last[b.count]
    }
}
