import Bytes
import Crypto
import HTTPClient
import HTTPSemantics
import PushDelivery
import Settings
import Telemetry

/// The OAuth client with which a Huawei app requests access tokens from Huawei's token service. Apps with equal keys
/// share each token.
struct HMSTokenKey: Hashable {
    let appID: String
    let secret: Secret
    let tokenEndpoint: String
    let connection: AppConnection?

    init?(_ settings: HMSSettings, _ makers: CredentialMakers) {
        guard let appID = settings.appID, let secret = settings.clientSecret else { return nil }
        self.appID = appID
        self.secret = secret
        tokenEndpoint = settings.tokenEndpoint
        connection = makers.connection
    }

    /// The request for an access token (RFC 6749 section 4.4).
    var request: HTTPClientRequest {
        var body = Array("grant_type=client_credentials&client_id=".utf8)
        body.append(formValue: appID)
        body += Array("&client_secret=".utf8)
        body.append(formValue: secret.reveal())
        var request = HTTPClientRequest(
            method: "POST", url: tokenEndpoint,
            headers: [HTTPField("content-type", "application/x-www-form-urlencoded")], body: body)
        if let route = connection?.route(group: "oauth") { request.route = route }
        request.route.group = "oauth"
        return request
    }
}

extension HMSApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        guard let key = HMSTokenKey(settings, makers) else { return .none }
        let words = AccessTokenClient.Words(
            issuer: "Huawei", secret: key.secret, cure: Self.cure,
            tellNotIssued: { log, reason in
                log.error(
                    "Huawei issued no access token for the app",
                    [.provider: "hms", .object: .text(key.appID), .reason: .text(reason), .advice: .text(Self.cure)])
            })
        let client = AccessTokenClient(words, timeout: makers.requestTimeout, log: makers.log) { _ in key.request }
        return try makers.made(for: key) { () throws(PushSetupError) in .accessToken(client) }
    }

    private static let cure =
        "Huawei does not take app-id and client-secret: both are in AppGallery Connect, under project settings."
}

extension Array<UInt8> {
    /// Appends a value of a form. All bytes of the value except letters and digits are percent-encoded.
    fileprivate mutating func append(formValue text: String) {
        for byte in text.utf8 {
            if byte.isASCIIAlphanumeric { append(byte) } else { append(percentEncoded: byte) }
        }
    }
}
