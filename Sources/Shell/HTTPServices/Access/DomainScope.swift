package import Bytes

/// The domains that a caller may reach: all domains, or the domains in the caller's key.
///
/// For a key with domains, the HTTP API answers as if the objects of other domains did not exist. Therefore such a key
/// does not show which users other domains have.
package enum DomainScope: Hashable, Sendable {
    /// The caller may reach everything, including objects without a domain.
    case wholeDaemon
    /// The caller may reach the given domains, in lower case; the set is not empty.
    case only(Set<ByteString>)

    /// The maximum number of domains in one key.
    static let limit = 100

    /// Reads domain names in upper or lower case; `nil` for an invalid name, or for no or too many names.
    package init?(domains: [String]) {
        guard (1...Self.limit).contains(domains.count), domains.allSatisfy(Self.isName) else { return nil }
        self = .only(Set(domains.map { ByteString($0).lowercased() }))
    }

    /// Reads the text form of the domains; `nil` for malformed text. Therefore a damaged list never means the whole
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

    /// The only domain of the caller; `nil` if the caller may reach several domains. A user without a domain in the
    /// request belongs to the caller's only domain.
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

    /// The domains that a query about `domain` may search for the caller: `nil` for all domains, and an empty list for
    /// none.
    package func hosts(named domain: String?) -> [ByteString]? {
        guard let domain else { return hosts }
        let host = ByteString(domain).lowercased()
        return permits(host) ? [host] : []
    }
}

/// How an HTTP route treats keys with domains.
package enum DomainRule: String, Hashable, Sendable {
    /// The route is for the whole daemon, and answers 403 to a key with domains.
    case wholeDaemon = "whole-daemon"
    /// The handler asks ``ServiceCall/domains`` about each object, and shows only objects of the caller's domains. If
    /// the handler does not ask, a key with domains gets no answer.
    case byDomain = "by-domain"
    /// The HTTP route needs no key.
    case open
}
