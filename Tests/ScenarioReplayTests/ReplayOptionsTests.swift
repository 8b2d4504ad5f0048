import Testing

@testable import ScenarioReplay

@Suite struct ReplayOptionsTests {
    @Test func `names and a target are read`() throws {
        let options = try ReplayOptions(["a", "--target", "127.0.0.1:5060", "b", "--pbx-port", "5070"])
        #expect(options.names == ["a", "b"])
        #expect(options.target?.address == "127.0.0.1:5060")
        #expect(options.target?.pbxPort == 5070)
    }

    @Test(arguments: [["--what"], ["--target"], ["--record", "f"], ["--target", "a:1", "--pbx-port", "x"]])
    func `a wrong word is refused`(words: [String]) {
        #expect(throws: ReplayError.self) { try ReplayOptions(words) }
    }

    @Test func `used ports are read from the kernel's table`() {
        let table = """
              sl  local_address rem_address   st
               0: 0100007F:13C4 00000000:0000 0A 00000000
               1: 00000000000000000000000001000000:1F90 0 0
            """
        #expect(LocalPorts.ports(in: table) == [5060, 8080])
    }

    @Test func `the sandbox's addresses are read from its greeting`() {
        let found = Stage.addresses(in: "listening tls=127.0.0.1:1 plain=127.0.0.1:2\n")
        #expect(found == ["tls": "127.0.0.1:1", "plain": "127.0.0.1:2"])
    }
}
