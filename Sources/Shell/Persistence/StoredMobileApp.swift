package import Timekeeping

/// A mobile app in the store, with the values from `sippushd app add` or the admin API.
package struct StoredMobileApp: Hashable, Sendable {
    package var name: String
    /// The MobileAppId in lower case.
    package var id: String
    package var organisation: String
    /// The SHA-256 hash of the ApiToken; the hash has 32 bytes.
    package var tokenHash: [UInt8]
    /// The user's address, in which `{{user}}` stands for the UserId.
    package var user: String
    /// The `pn-provider` of the app's Apple push tokens.
    package var appleProvider: String
    package var appleParam: String?
    package var googleParam: String?
    package var createdAt: UnixTime

    package init(
        name: String, id: String, organisation: String, tokenHash: [UInt8], user: String, appleProvider: String,
        appleParam: String?, googleParam: String?, createdAt: UnixTime
    ) {
        self.name = name
        self.id = id
        self.organisation = organisation
        self.tokenHash = tokenHash
        self.user = user
        self.appleProvider = appleProvider
        self.appleParam = appleParam
        self.googleParam = googleParam
        self.createdAt = createdAt
    }
}
