package import HTTPServices
import Persistence
import Timekeeping

/// The request for a link with which a phone sets up an account.
package struct ProvisionLinkRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "expiresAfter": .number(60...604_800)
            .described("How many seconds the link is valid. The default is api.provisioning.expires."),
        "newPassword": .flag.described(
            "With true, the user gets a new password when a phone uses the link. Acrobits' apps need a new password."),
    ]

    package var expiresAfter: Int64?
    package var newPassword: Bool?

    package init(expiresAfter: Int64? = nil, newPassword: Bool? = nil) {
        self.expiresAfter = expiresAfter
        self.newPassword = newPassword
    }
}

/// A new link. Only this answer contains the link's URL.
package struct ProvisionLinkAnswer: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "ProvisioningLink"
    package static let notes: [String: JSONSchema] = [
        "user": .words("`user@domain`"),
        "url": .words("The URL for the phone. Anybody who has the URL can set up the account once."),
        "expiresAt": .words("The time until which the link is valid, in Unix seconds."),
        "newPassword": .words("Whether the user gets a new password when a phone uses the link."),
    ]

    package var user: String
    package var url: String
    package var expiresAt: Int64
    package var newPassword: Bool
}

/// A link in a list, without its URL.
package struct ProvisionLinkReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "ProvisioningLinkReport"
    package static let notes: [String: JSONSchema] = [
        "createdBy": .words(
            "The key or operator that made the link. Only keys for the whole daemon see this member."),
        "usedAt": .words("The time at which a phone used the link, in Unix seconds; missing for an unused link."),
        "usedFrom": .words("The address of the phone that used the link."),
    ]

    package var user: String
    package var createdAt: Int64
    package var expiresAt: Int64
    package var newPassword: Bool
    package var createdBy: String?
    package var usedAt: Int64?
    package var usedFrom: String?

    init(_ link: StoredProvisionLink, showsCreator: Bool) {
        user = "\(link.name)@\(link.domain)"
        createdAt = link.createdAt.seconds
        expiresAt = link.expiresAt.seconds
        newPassword = link.setsPassword
        createdBy = showsCreator ? link.creator : nil
        usedAt = link.usedAt?.seconds
        usedFrom = link.usedAt == nil ? nil : link.usedFrom
    }
}

/// One page of links, newest first.
package struct ProvisionLinkPage: Codable, Sendable {
    package var links: [ProvisionLinkReport]
    /// The value of the query parameter `after` in a request for the next page; `nil` on the last page.
    package var next: UInt64?
}
