"""Conversations in which the assistant calls a tool, in the format of chat_template.jinja."""
import json

INTRODUCTION = "# Tools\n\nYou may call these functions:\n<tools>\n{tools}\n</tools>\n\n" + \
    "To call one, write a JSON object with its name and its arguments:\n" + \
    '<tool_call>\n{{"name": NAME, "arguments": ARGUMENTS}}\n</tool_call>'


def function(called, description, **parameters):
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    return {"type": "function", "function": {"name": called, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(parameters)}}}


MANUAL = [function("read_manual", "Returns the manual page of a command.", name="string"),
          function("man", "Shows a page of the manual.", page="string"),
          function("get_man_page", "Looks up the manual page of a program.", command="string")]
PACKAGES = [function("package_of", "Says which package contains a command.", command="string"),
            function("find_package", "Finds the package of a program.", program="string")]
SHELL = [function("run_command", "Runs a shell command and returns its output.", command="string"),
         function("shell", "Executes a command line.", command="string")]
OTHERS = [function("get_time", "Returns the time in a city.", city="string"),
          function("read_file", "Returns the content of a file.", path="string"),
          function("search", "Searches the web.", query="string"),
          function("list_directory", "Lists the files in a directory.", path="string"),
          function("calculate", "Evaluates an arithmetic expression.", expression="string")]


def call(tool, value):
    described = tool["function"]
    arguments = {described["parameters"]["required"][0]: value}
    return "<tool_call>\n" + json.dumps({"name": described["name"], "arguments": arguments}) + "\n</tool_call>"


def result(text):
    return f"<tool_response>\n{text}\n</tool_response>"


def system_with(writer, tool):
    offered = [tool, *writer.rng.sample(OTHERS, writer.rng.randrange(3))]
    writer.rng.shuffle(offered)
    return INTRODUCTION.format(tools="\n".join(json.dumps(t) for t in offered))


def page_calls(writer, page, purpose):
    """One conversation with a call and its result, and one that ends with the call."""
    rng, name = writer.rng, page.names[0]
    tool = rng.choice(MANUAL)
    ask = rng.choice(["Look up what {n} does.", "Read the manual of {n} and tell me what it is for.",
                      "What does the manual say about {n}?", "Check the manual page of {n}."]).format(n=name)
    text = f"NAME\n    {name} - {page.whatis}" + (f"\n\nDESCRIPTION\n    {page.summary}" if page.summary else "")
    writer.chat((ask, call(tool, name)), (result(text), purpose), system=system_with(writer, tool))
    writer.chat((ask, call(tool, name), f"I should look up {name}."), system=system_with(writer, tool))
    tool = rng.choice(PACKAGES)
    ask = rng.choice(["Find out which package {n} is in.", "Which package contains {n}? Look it up."]).format(n=name)
    writer.chat((ask, call(tool, name)), (result(page.package), f"{name} is in the package {page.package}."),
                system=system_with(writer, tool))
    if page.examples:
        tool, line = rng.choice(SHELL), page.examples[0][0]
        writer.chat((f"Run this for me: {line}", call(tool, line)), system=system_with(writer, tool))
    # A tool that does not help is not called.
    writer.chat((f"What does {name} do?", purpose), system=system_with(writer, rng.choice(OTHERS)))


def failed_call(writer, name):
    tool = writer.rng.choice(MANUAL)
    writer.chat((f"Look up what {name} does.", call(tool, name)), (result(f"No manual entry for {name}"), f"There is no manual page for {name}."),
                system=system_with(writer, tool))
