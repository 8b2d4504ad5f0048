package enum PushCheck {
    /// Compares the pushes of a scenario with the expected pushes. Pushes to one token must come in the expected order.
    ///
    /// - Parameters:
    ///   - pushes: the pushes, in the order in which the sandbox recorded them.
    ///   - expected: the pushes that the scenario expects.
    /// - Returns: the differences.
    package static func differences(of pushes: [PushRecord], expected: [ExpectedPush]) -> [Difference] {
        var differences: [Difference] = []
        let found = Dictionary(grouping: pushes.enumerated()) { $0.element.token }
        let wanted = Dictionary(grouping: expected) { $0.token }
        for token in Set(found.keys).union(wanted.keys).sorted() {
            let (found, wanted) = (found[token, default: []], wanted[token, default: []])
            if found.count != wanted.count {
                let types = found.map(\.element.type).joined(separator: ", ")
                let list = types.isEmpty ? "" : " (\(types))"
                differences.append(
                    Difference(
                        sentence: "\(found.count) pushes\(list) for \(token), expected \(wanted.count)",
                        subject: "pushes for", token: token, name: "number", expected: count(wanted.map(\.type)),
                        seen: count(found.map(\.element.type)),
                        places: found.dropFirst(wanted.count).map { .push($0.offset) }))
            }
            for (index, (push, expectation)) in zip(found, wanted).enumerated() {
                guard let mismatch = push.element.difference(from: expectation) else { continue }
                differences.append(
                    Difference(
                        sentence: "push \(index + 1) for \(token): \(mismatch)", subject: "push \(index + 1) for",
                        token: token, name: mismatch.name, expected: mismatch.expected, seen: mismatch.seen,
                        places: [.push(push.offset)]))
            }
        }
        return differences
    }

    /// A sentence about each difference; empty if there is none.
    package static func complaints(about pushes: [PushRecord], expected: [ExpectedPush]) -> [String] {
        differences(of: pushes, expected: expected).map(\.sentence)
    }

    private static func count(_ types: [String]) -> String {
        types.isEmpty ? "0" : "\(types.count): \(types.joined(separator: ", "))"
    }
}
