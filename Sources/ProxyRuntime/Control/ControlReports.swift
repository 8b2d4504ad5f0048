/// What the control socket says and takes, as JSON. The command line reads the same types.

package struct HeldCallReport: Codable, Sendable {
    package var callRef: String
    package var aor: String
    package var callID: String
    /// Unix seconds.
    package var receivedAt: Int64
    package var sleeping: Int
    package var ringing: Int
}

package struct BucketEntryReport: Codable, Sendable {
    package var callRef: String
    package var caller: String
    /// Unix seconds.
    package var date: Int64
    /// The call ended unanswered; false while it is being offered.
    package var isOver: Bool
    /// The devices the call is still to be reported to.
    package var devices: [UInt64]
}

package struct BindingReport: Codable, Sendable {
    package var id: UInt64
    package var contact: String
    package var flow: String
    /// Provider and the start of the token; `nil` for an ordinary contact.
    package var token: String?
    package var isFresh: Bool
}

package struct ProviderReport: Codable, Sendable {
    package var name: String
    package var isEnabled: Bool

    package init(name: String, isEnabled: Bool) {
        self.name = name
        self.isEnabled = isEnabled
    }
}

package struct UserReport: Codable, Sendable {
    /// `user@domain`.
    package var name: String
}

/// A user to add or change; hashes only, never the password (RFC 7616 section 3.4.2: HA1).
package struct UserCredentials: Codable, Sendable {
    package var name: String
    package var ha1MD5: String
    package var ha1SHA256: String

    package init(name: String, ha1MD5: String, ha1SHA256: String) {
        self.name = name
        self.ha1MD5 = ha1MD5
        self.ha1SHA256 = ha1SHA256
    }
}

/// RFC 9457 problem details, as far as they are used here.
package struct ControlProblem: Codable, Sendable {
    package var title: String
    package var status: Int
}
