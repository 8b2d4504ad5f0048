package import Addressing
package import Bytes
package import SIPGrammar

/// A label that distinguishes a device from the other devices of its AOR. The label of a device stays the same when the
/// device's token or address changes (rule R8b, reading A5).
package struct DeviceLabel: Hashable, Sendable {
    package let source: RegistrarSettings.LabelSource
    /// The unchanged value of the Contact parameter `label`, or the value of `+sip.instance` in lower case.
    package let value: ByteString

    /// Reads the label of a Contact from the first source that has one; `nil` if no source has one.
    package init?(contact: NameAddress, sources: [RegistrarSettings.LabelSource]) {
        for source in sources {
            switch source {
            case .label:
                if let value = contact.decodedParameter("label"), !value.isEmpty {
                    self.init(source: source, value: value)
                    return
                }
            case .instance:
                if let value = Self.instance(of: contact) {
                    self.init(source: source, value: value)
                    return
                }
            }
        }
        return nil
    }

    private init(source: RegistrarSettings.LabelSource, value: ByteString) {
        self.source = source
        self.value = value
    }

    private static func instance(of contact: NameAddress) -> ByteString? {
        guard let instance = contact.instance, !isShared(instance) else { return nil }
        return instance
    }

    /// Whether many devices can have the instance: it is all zeros, or pjsua's default of zeros and a hash of the host
    /// name.
    static func isShared(_ instance: ByteString) -> Bool {
        let prefix: StaticString = "urn:uuid:"
        let uuid = instance.hasPrefix(prefix) ? instance[prefix.utf8CodeUnitCount..<instance.count] : instance
        return uuid.hasPrefix("00000000-0000-0000-0000-0000")
    }
}

extension BindingTable {
    /// The label of the device with the given binding; `nil` if the device has no label.
    package func label(of id: DeviceID, _ sources: [RegistrarSettings.LabelSource]) -> ByteString? {
        guard let contact = binding(id)?.contact, let address = NameAddress(contact) else { return nil }
        return DeviceLabel(contact: address, sources: sources)?.value
    }
}

extension NameAddress {
    /// The value of `+sip.instance` (RFC 5626 section 4.1) in lower case, without quotes and angle brackets.
    var instance: ByteString? {
        guard var value = parameters.value(of: "+sip.instance")?.unquoted(), !value.isEmpty else { return nil }
        if value[0] == UInt8(ascii: "<"), value[value.count - 1] == UInt8(ascii: ">"), value.count > 2 {
            value = value[1..<value.count - 1]
        }
        return value.lowercased()
    }
}
