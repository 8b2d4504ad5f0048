import Bytes
package import Crypto
package import Registration

/// Makes bearer tokens for tests, signed with test keys.
package enum TestTokens {
    package static let issuer = "https://login.example.net/"
    package static let audience = "sip.example.net"
    /// The time at which the tests begin; ``claims(_:)`` makes tokens for the next hour.
    package static let start: Int64 = 1_790_000_000

    /// Returns the claims of a token as JSON. A claim in `changes` replaces the usual claim of the same name, and an
    /// empty text removes it.
    package static func claims(_ subject: String = "bob", _ changes: [String: String] = [:]) -> String {
        var claims = [
            "iss": "\"\(issuer)\"", "aud": "\"\(audience)\"", "sub": "\"\(subject)\"", "iat": "\(start)",
            "exp": "\(start + 3600)",
        ]
        for (name, value) in changes { claims[name] = value.isEmpty ? nil : value }
        return "{" + claims.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    }

    /// Returns a token in compact form, signed with the key.
    package static func token(
        _ claims: String = claims(), header: String? = nil, by key: ProviderKey
    ) throws(CryptoError) -> String {
        let header = header ?? #"{"alg":"\#(key.algorithm.name)","typ":"JWT"}"#
        let token = try key.token(header: Array(header.utf8), claims: Array(claims.utf8))
        return String(decoding: token, as: UTF8.self)
    }

    /// Encodes and joins the three parts of a token, with any signature.
    package static func unsigned(header: String, claims: String, signature: [UInt8]) -> String {
        [Array(header.utf8), Array(claims.utf8), signature]
            .map { String(decoding: Base64.url.encode($0), as: UTF8.self) }.joined(separator: ".")
    }

    package static func rsa() throws(CryptoError) -> ProviderKey {
        try ProviderKey(.bytes(Array(TestKeys.rsa2048.utf8)), for: .rs256)
    }

    package static func p256() throws(CryptoError) -> ProviderKey {
        try ProviderKey(.bytes(Array(TestKeys.rfc7515P256.utf8)), for: .es256)
    }

    /// The public part of a key, as an issuer publishes it. The closure `checks` is called for each signature that is
    /// checked.
    package static func published(
        _ key: ProviderKey, id: String? = nil, checks: @escaping @Sendable () -> Void = {}
    ) -> BearerKey {
        BearerKey(
            id: id.map { ByteString($0) }, algorithm: key.algorithm == .rs256 ? .rs256 : .es256,
            print: ByteString("\(key.algorithm.name) \(id ?? "")")
        ) { signature, message in
            checks()
            return key.isValid(signature, for: message)
        }
    }
}

extension TestKeys {
    /// The public key of ``rsa2048`` as PEM.
    package static let rsa2048Public = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA5F7coOcNdiMlaO0Q85mS
        TgEPDuV63PPKmcuqbxIlXS6J1TjZidci2q8zV3/ADAwxIHXXMBJYCY6SfXuVZOnv
        hwa3U0YHb9m336Qow1O1oUYx/spyGNObl7CApvcFdfHcuslwZqP5bvW07pcUmXY+
        O8BdZoTCAfNfyLJGgoPuEOgDkYBVoprRjRhrZZ2AsM87lTm2CIHISzBlYeHWuVU6
        8prvLGy4Ik3y4/LzER1trJ5JQm+sFSOx+JlkSrlFhgAdu+qyyDHD+PdjJHSwxnQU
        +88kNC7QH6hj1z2WbNG6RQHg3iNael/FqVi06/elNNsOAgRo7q3vRV1Nrf2GSIPw
        mwIDAQAB
        -----END PUBLIC KEY-----
        """

    /// The modulus of ``rsa2048`` in base64url.
    package static let rsa2048Modulus =
        "5F7coOcNdiMlaO0Q85mSTgEPDuV63PPKmcuqbxIlXS6J1TjZidci2q8zV3_ADAwxIHXXMBJYCY6SfXuVZOnvhwa3U0YHb9m336Qow1O1"
        + "oUYx_spyGNObl7CApvcFdfHcuslwZqP5bvW07pcUmXY-O8BdZoTCAfNfyLJGgoPuEOgDkYBVoprRjRhrZZ2AsM87lTm2CIHISzBlYeHW"
        + "uVU68prvLGy4Ik3y4_LzER1trJ5JQm-sFSOx-JlkSrlFhgAdu-qyyDHD-PdjJHSwxnQU-88kNC7QH6hj1z2WbNG6RQHg3iNael_FqVi0"
        + "6_elNNsOAgRo7q3vRV1Nrf2GSIPwmw"

    /// The public key of ``rfc7515P256``, as RFC 7515 appendix A.3 has it.
    package static let rfc7515P256JWK =
        #"{"kty":"EC","crv":"P-256","kid":"a3","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#
}
