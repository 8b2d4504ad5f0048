/// The permissions of a key. Every route names one; new services add their own.
package enum APIScope: String, Hashable, Sendable, CaseIterable {
    /// Report the outcome of pushes to tokens.
    case tokensReport = "tokens.report"
    /// Read the dead tokens.
    case tokensRead = "tokens.read"
    /// Read and change contacts.
    case registrations
    /// Read and send pushes.
    case pushes
    /// Report what happened to pushes on the device, and read push statistics.
    case lifecycle
    /// Report what happened to pushes on the device, and read nothing: for keys inside apps, where anybody can find
    /// them.
    case lifecycleReport = "lifecycle.report"
    /// Read the daemon's metrics.
    case metrics
    /// Everything, including the other scopes.
    case admin

    /// Reads names separated by commas; `nil` for an unknown name or an empty list.
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
    /// In the order of the cases, separated by commas, as ``APIScope/set(_:)`` reads them.
    package var names: String { APIScope.allCases.filter(contains).map(\.rawValue).joined(separator: ",") }

    func allows(_ scope: APIScope) -> Bool {
        contains(scope) || contains(.admin) || (scope == .lifecycleReport && contains(.lifecycle))
    }
}
