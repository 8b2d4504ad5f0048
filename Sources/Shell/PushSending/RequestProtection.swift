import Bytes
import Crypto
import HTTPClient
import HTTPSemantics
import PushDelivery
import Timekeeping

extension HTTPClientRequest {
    /// Encrypts the body of a push that requires encryption.
    ///
    /// With invalid keys of a subscription, the push is sent without payload, which still wakes the device.
    mutating func protect(_ protection: ProviderRequest.Protection) {
        switch protection {
        case .none: break
        case .webPush(let publicKey, let authSecret):
            guard let key = Base64.url.decode(publicKey.array), let secret = Base64.url.decode(authSecret.array),
                let sealed = try? WebPushEncryption.encrypt(body, for: key, authSecret: secret)
            else {
                body = []
                return
            }
            body = sealed
            headers.append(HTTPField("content-type", "application/octet-stream"))
            headers.append(HTTPField("content-encoding", "aes128gcm"))
        }
    }

    /// Signs the body, which proves to the receiver that the sender knows one of the secrets (T13).
    mutating func sign(with secrets: [[UInt8]], at date: UnixTime) throws(CryptoError) {
        let signature = try RequestSignature(for: body, secrets: secrets, at: date)
        headers.append(
            HTTPField(HTTPPushHeader.signatureName, String(decoding: signature.text, as: UTF8.self)))
    }
}
