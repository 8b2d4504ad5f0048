/// Checks the pushes of a scenario against the expected pushes.
package enum PushCheck {
    /// Compares the pushes of a scenario with the expected pushes. For each push token, the pushes must have the
    /// expected order.
    ///
    /// - Parameters:
    ///   - pushes: the pushes, in the order in which the sandbox recorded them.
    ///   - expected: the pushes that the scenario expects.
    /// - Returns: a sentence about each difference; empty if there is none.
    package static func complaints(about pushes: [PushRecord], expected: [ExpectedPush]) -> [String] {
        var complaints: [String] = []
        for token in Set(pushes.map(\.token)).union(expected.map(\.token)).sorted() {
            let found = pushes.filter { $0.token == token }
            let wanted = expected.filter { $0.token == token }
            if found.count != wanted.count {
                let types = found.map(\.type).joined(separator: ", ")
                let list = types.isEmpty ? "" : " (\(types))"
                complaints.append("\(found.count) pushes\(list) for \(token), expected \(wanted.count)")
            }
            for (index, (push, expectation)) in zip(found, wanted).enumerated() {
                guard let difference = push.difference(from: expectation) else { continue }
                complaints.append("push \(index + 1) for \(token): \(difference)")
            }
        }
        return complaints
    }
}
