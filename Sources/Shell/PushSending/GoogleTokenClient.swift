import Crypto
import HTTPClient
import PushDelivery
import Settings
import Telemetry

/// The service account with which a Firebase app requests access tokens from Google's token service. Apps with equal
/// keys share each token.
struct GoogleTokenKey: Hashable {
    let accountFile: String
    /// The contents of the file with the Google service account.
    let account: [UInt8]
    let tokenEndpoint: String?
    let connection: AppConnection?

    /// Creates the key by which apps share an access token; `nil` for FCM's legacy interface, which needs no access
    /// tokens.
    init?(_ settings: FCMSettings, _ makers: CredentialMakers) {
        guard settings.bodyFormat == .v1, let file = settings.serviceAccountFile,
            let account = makers.accounts[file]
        else { return nil }
        self.account = account.content
        connection = makers.connection
        accountFile = file
        tokenEndpoint = settings.tokenEndpoint
    }
}

extension FCMApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        guard let key = GoogleTokenKey(settings, makers), let account = makers.accounts[key.accountFile] else {
            return settings.serverKey.map { .fixed("key=" + $0.reveal()) } ?? .none
        }
        let words = AccessTokenClient.Words(
            issuer: "Google", cure: Self.cure,
            tellNotIssued: { log, reason in
                log.error(
                    "Google issued no access token for the service account",
                    [.provider: "fcm", .path: .text(key.accountFile), .reason: .text(reason)])
            })
        let client = AccessTokenClient(words, timeout: makers.requestTimeout, log: makers.log) {
            (date) throws(CryptoError) in
            try account.grantRequest(
                endpoint: key.tokenEndpoint, route: key.connection?.route(group: "oauth"), now: date)
        }
        return try makers.made(for: key) { () throws(PushSetupError) in .accessToken(client) }
    }

    private static let cure =
        "Google does not take the service account: was its key deleted in the console? A wrong clock has the same effect: timedatectl."
}
