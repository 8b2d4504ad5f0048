import Foundation

/// One push as the stand-in saw it: a line of the record.
package struct PushRecord: Codable, Sendable {
    /// Unix milliseconds.
    package var time: Int64
    /// `apns` or `fcm`.
    package var service: String
    package var token: String
    /// `data.type` or `acme.type` of the payload; `other` when there is none.
    package var type: String
    /// `apns-*` headers.
    package var headers: [String: String]
    /// The first characters of a digest of the credential: shows whether it was used again.
    package var credential: String
    package var body: String
    package var status: Int
    package var connection: UInt64
    package var version: String
}

/// How a token is to fail.
package struct FailurePlan: Codable, Sendable {
    package var status: Int
    package var reason: String?
    /// Milliseconds, in the answer 410 of APNs.
    package var timestamp: Int64?
    /// How often; without it, always.
    package var times: Int?
    package var delay_ms: Int64?
    package var action: SandboxAnswer.Fault?
    package var retry_after: Int?
}
