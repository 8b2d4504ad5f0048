import Bytes
import Registration
import Testing

@Suite("Device label (reading A5)")
struct DeviceLabelTests {
    @Test(arguments: [
        ("<sip:b@h;label=Bob%20s>", "Bob s"), ("<sip:b@h>;label=\"Bob s\"", "Bob s"),
        ("<sip:b@h>;label=x;+sip.instance=\"<urn:uuid:1a>\"", "x"),
        ("<sip:b@h>;+sip.instance=\"<urn:uuid:AB-1>\"", "urn:uuid:ab-1"),
        ("<sip:b@h>;+SIP.Instance=\"<urn:uuid:AB-1>\";reg-id=2", "urn:uuid:ab-1"),
    ])
    func `is the label parameter or else the instance`(contact: String, expected: String) throws {
        #expect(try label(contact)?.value.string == expected)
    }

    @Test(arguments: [
        "<sip:b@h>", "<sip:b@h>;label", "<sip:b@h;label>",
        "<sip:b@h>;+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-000000000000>\"",
        "<sip:b@h>;+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\"",
        "<sip:b@h>;+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\";reg-id=1",
    ])
    func `a missing label, and one that devices share, count as none`(contact: String) throws {
        #expect(try label(contact) == nil)
    }

    @Test func `a label and an instance of the same text are different`() throws {
        #expect(try label("<sip:b@h>;label=urn:x") != label("<sip:b@h>;+sip.instance=\"<urn:x>\""))
    }

    @Test func `sources can be left out`() throws {
        let contact = try contactOf("<sip:b@h>;label=x;+sip.instance=\"<urn:x>\"")
        #expect(DeviceLabel(contact: contact, sources: [.instance])?.value.string == "urn:x")
        #expect(DeviceLabel(contact: contact, sources: []) == nil)
    }

    private func label(_ contact: String) throws -> DeviceLabel? {
        DeviceLabel(contact: try contactOf(contact), sources: [.label, .instance])
    }
}
