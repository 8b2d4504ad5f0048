/// A permission of an API key. Each HTTP route names the scope that a key needs.
package enum APIScope: String, Hashable, Sendable, CaseIterable {
    /// The scope allows a key to report push tokens and removed accounts of apps.
    case tokensReport = "tokens.report"
    /// The scope allows a key to read the dead tokens.
    case tokensRead = "tokens.read"
    /// The scope allows a key to read and change contacts.
    case registrations
    /// The scope allows a key to send pushes and to read their outcomes.
    case pushes
    /// The scope allows a key to report events of pushes on the device (received, followed, read), and to read push
    /// statistics.
    case lifecycle
    /// The scope allows a key to report events of pushes on the device, but not to read anything. The scope is for keys
    /// inside apps, which anybody can find.
    case lifecycleReport = "lifecycle.report"
    /// The scope allows a key to make, list and revoke links with which phones get the accounts of users.
    case provisioning
    /// The scope allows a key to read the daemon's metrics.
    case metrics
    /// The scope allows a key to read what operators may read, and to open the web page, but to change nothing.
    case adminRead = "admin.read"
    /// The scope allows a key to use all HTTP routes, because the scope includes all other scopes.
    case admin

    /// Reads the names of scopes, separated by commas; `nil` for an unknown name or an empty list.
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
    /// The names of the scopes, separated by commas, as ``APIScope/set(_:)`` reads them.
    package var names: String { APIScope.allCases.filter(contains).map(\.rawValue).joined(separator: ",") }

    func allows(_ scope: APIScope) -> Bool {
        contains(scope) || contains(.admin) || (scope == .lifecycleReport && contains(.lifecycle))
            || (scope == .metrics && contains(.adminRead))
    }
}
