import Addressing
import Crypto
package import ProxyRuntime
import Settings
package import Timekeeping

/// Makes the certificate authority of a cluster, and the certificates of its nodes.
package struct ClusterCertificates {
    /// A new certificate and its private key, PEM.
    package struct Pair: Sendable {
        package let certificate: [UInt8]
        package let key: [UInt8]
    }

    /// The name in the authority's certificate.
    private static let authorityName = "sippushd cluster CA"
    private static let authorityDays = 3650
    package static let nodeDays = 825
    /// The port in the settings that the command prints.
    private static let port: UInt16 = 5071

    package let node: String
    private let addresses: [IPAddress]
    private let days: Int

    /// - Throws: an error if a value cannot be part of a node's certificate.
    package init(node: String, addresses texts: [String], days: Int) throws(StartError) {
        guard ClusterSettings.isName(node) else {
            throw StartError("expected a name of 1 to 32 letters, digits, - and _; found \"\(node)\"")
        }
        guard (1...Self.authorityDays).contains(days) else {
            throw StartError("expected 1 to \(Self.authorityDays) days")
        }
        var addresses: [IPAddress] = []
        for text in texts {
            guard let address = IPAddress(text), !address.isUnspecified else {
                throw StartError("expected the IP address at which other nodes reach the node; found \"\(text)\"")
            }
            if !addresses.contains(address) { addresses.append(address) }
        }
        guard !addresses.isEmpty else { throw StartError("expected an IP address at which other nodes reach the node") }
        (self.node, self.addresses, self.days) = (node, addresses, days)
    }

    /// Makes a new certificate authority.
    package static func makeAuthority() throws(StartError) -> Pair {
        do throws(TLSError) {
            let made = try CertificateAuthority.make(name: authorityName, validDays: authorityDays)
            return Pair(certificate: made.certificate, key: made.key)
        } catch {
            throw StartError("the certificate authority cannot be made: \(error)")
        }
    }

    /// Makes the node's certificate with the authority in the given files.
    package func issue(authority certificate: String, key: String) throws(StartError) -> Pair {
        do throws(TLSError) {
            let authority = CertificateAuthority(TLSIdentity(certificate: .file(certificate), key: .file(key)))
            let made = try authority.issue(name: node, addresses: addresses.map(\.description), validDays: days)
            return Pair(certificate: made.certificate, key: made.key)
        } catch .keyDoesNotMatchCertificate {
            throw StartError("\(key): the key does not belong to \(certificate)")
        } catch {
            throw StartError("\(error)")
        }
    }

    /// The settings of the node, as YAML.
    package func settings(certificate: String, key: String, authority: String) -> [String] {
        let place = Endpoint(addresses.first ?? .loopbackV4, Self.port)
        return [
            "cluster:", "    node: \(YAMLText.scalar(node))", "    listen: \(YAMLText.scalar(place.description))",
            "    cert-file: \(certificate)", "    key-file: \(key)", "    ca-file: \(authority)",
        ]
    }

    /// The addresses in the certificate, as text.
    package var places: String { addresses.map(\.description).joined(separator: ", ") }

    /// The end of a certificate.
    package static func end(of certificate: [UInt8]) -> UnixTime? {
        (try? PEM.bytes(certificate).certificateEnds())?.first
    }
}
