package import Bytes

/// The domains that a caller may reach: all domains, or the domains that the caller's key names.
///
/// For a caller whose key names domains, the HTTP API answers as if the objects of other domains did not exist. Answers
/// to a caller whose key names domains do not show which users other domains have.
package enum DomainScope: Hashable, Sendable {
    /// The caller may reach everything, including objects without a domain.
    case wholeDaemon
    /// The caller may reach the given domains, in lower case. The set of domains is not empty.
    case only(Set<ByteString>)

    /// The maximum number of domains in one key.
    static let limit = 100

    /// Reads the names of domains in upper or lower case; `nil` if a name is empty or cannot be a domain, or if the
    /// list has no domains or too many.
    package init?(domains: [String]) {
        guard (1...Self.limit).contains(domains.count), domains.allSatisfy(Self.isName) else { return nil }
        self = .only(Set(domains.map { ByteString($0).lowercased() }))
    }

    /// Reads the text form of the domains; `nil` if the text is malformed, so that a damaged list never means the whole
    /// daemon.
    init?(_ text: String) {
        guard !text.isEmpty else {
            self = .wholeDaemon
            return
        }
        self.init(domains: text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
    }

    private static func isName(_ name: String) -> Bool {
        (1...253).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ",") }
    }

    /// The domains, sorted by name; `nil` for the whole daemon.
    package var hosts: [ByteString]? {
        switch self {
        case .wholeDaemon: nil
        case .only(let domains): domains.sorted { $0.string < $1.string }
        }
    }

    package var names: [String]? { hosts?.map(\.string) }

    /// The domains, separated by commas; empty for the whole daemon.
    var text: String { names?.joined(separator: ",") ?? "" }

    /// The only domain of the caller; `nil` if the caller may reach several domains. A user who is named without a
    /// domain belongs to the caller's only domain.
    package var single: ByteString? {
        guard case .only(let domains) = self, domains.count == 1 else { return nil }
        return domains.first
    }

    package func permits(_ domain: ByteString) -> Bool {
        switch self {
        case .wholeDaemon: true
        case .only(let domains): domains.contains(domain.lowercased())
        }
    }

    /// Whether the caller may reach everything that the other caller may reach.
    package func includes(_ other: DomainScope) -> Bool {
        switch (self, other) {
        case (.wholeDaemon, _): true
        case (.only, .wholeDaemon): false
        case (.only(let domains), .only(let others)): domains.isSuperset(of: others)
        }
    }

    /// The part of a query about one domain that the caller may send; an empty list selects nothing.
    package func hosts(named domain: String?) -> [ByteString]? {
        guard let domain else { return hosts }
        let host = ByteString(domain).lowercased()
        return permits(host) ? [host] : []
    }
}

/// How an HTTP route treats callers whose key names domains. Each HTTP route declares how it treats callers whose key
/// names domains.
package enum DomainRule: String, Hashable, Sendable {
    /// The HTTP route is for the whole daemon, and refuses keys that name domains with 403.
    case wholeDaemon = "whole-daemon"
    /// The handler asks ``ServiceCall/domains`` about each object, and shows no object of a domain that is not the
    /// caller's. If the handler does not ask for the caller's domains, a key that names domains gets no answer from the
    /// handler.
    case byDomain = "by-domain"
    /// The HTTP route needs no key.
    case open
}
