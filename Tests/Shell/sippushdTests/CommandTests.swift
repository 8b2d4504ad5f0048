import Testing

@testable import sippushd

@Suite("The command line")
struct CommandTests {
    @Test func `the help of each command has an example that the command accepts`() throws {
        for command in commands {
            #expect(!command.examples.isEmpty, "\(command.name)")
            for example in command.examples {
                let name = command.name.split(separator: " ")
                let words = example.split(separator: " ")
                #expect(words.prefix(name.count).elementsEqual(name), "\(example)")
                let invocation = try command.parse(words.dropFirst(name.count).map(String.init))
                #expect(command.arguments.hasPrefix("[") || invocation.arguments.isEmpty == command.arguments.isEmpty)
                #expect(command.help.contains("\n  sippushd \(example)\n"))
            }
        }
    }
}
