/// What a key may do. Every route names one; new services add theirs.
package enum APIScope: String, Hashable, Sendable, CaseIterable {
    /// Report what became of tokens.
    case tokensReport = "tokens.report"
    /// Read which tokens are dead.
    case tokensRead = "tokens.read"
    /// See and change contacts.
    case registrations
    /// See and send pushes.
    case pushes
    /// Report what became of pushes on the device, and read how pushes fared.
    case lifecycle
    /// Report what became of pushes on the device, and read nothing: for keys that stand in apps, where anybody can
    /// find them.
    case lifecycleReport = "lifecycle.report"
    /// Read the daemon's figures.
    case metrics
    /// Everything, the other scopes included.
    case admin

    /// Reads names with commas between them; `nil` when one is unknown or there is none.
    package static func set(_ text: some StringProtocol) -> Set<APIScope>? {
        var scopes: Set<APIScope> = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let scope = APIScope(rawValue: String(word)) else { return nil }
            scopes.insert(scope)
        }
        return scopes.isEmpty ? nil : scopes
    }
}

extension Set<APIScope> {
    /// In the order of the cases, with commas: what ``APIScope/set(_:)`` reads.
    package var names: String { APIScope.allCases.filter(contains).map(\.rawValue).joined(separator: ",") }

    func allows(_ scope: APIScope) -> Bool {
        contains(scope) || contains(.admin) || (scope == .lifecycleReport && contains(.lifecycle))
    }
}
